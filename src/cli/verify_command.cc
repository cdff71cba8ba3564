// verify: proof that caching changes nothing, for every strategy and codec.
#include "cli/commands.h"
#include "cli/option_parser.h"
#include "cli/session.h"
#include "cli/verification.h"

namespace quire::cli {
namespace {

Result<void> run_verify(const Command& self, const Environment& env,
                        std::span<const std::string> args) {
  VerifyOptions options;
  OptionParser parser("quire verify");
  declare(parser, options.model);
  declare_text(parser, options.prompt);
  parser.heading(
      "What is compared (default: dynamic at f16, q8, q6, q4 and q6/q4; static; a sliding\n"
      "window of half the prompt with 4 sinks; offloaded)");
  parser.add({{"-n", "--predict"},
              "N",
              "greedy steps after the prompt (16)",
              store_int(options.steps, 1, 65536)});
  parser.add({{"--cache"},
              "KIND",
              "only this kind, at each codec of --kv; may repeat",
              append_cache(options.caches)});
  parser.add({{"--kv"},
              "LIST",
              "only these codecs, with each kind of --cache",
              store_kv_list(options.codecs)});
  parser.add({{"--spill-dir"},
              "DIR",
              "where an offloaded cache keeps what does not fit (default $QUIRE_HOME/spill)",
              store(options.spill_dir)});
  parser.add({{"--lengths"},
              "LIST",
              "tokens after which one step is timed with and without a cache (default "
              "1,16,64,256)",
              store_list(options.lengths, 1, INT32_MAX)});
  parser.add({{"--full"},
              "",
              "recompute everything at each single step; more codecs, other chunks and threads",
              set(options.full)});
  declare_greedy(parser);
  declare(parser, options.compute);
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  for (const kv::KvCodecs codecs : options.codecs) warn_of_coarse_codecs(output, codecs);
  QUIRE_TRY(const VerifyRecord record, verify(env, options, output));
  output.text(for_people(record));
  QUIRE_TRY_VOID(output.finish(to_json(record)));
  return verdict(record);
}

}  // namespace

const Command kVerifyCommand = {
    .name = "verify",
    .arguments = "MODEL [options]",
    .summary = "prove that caching changes no bit of any logit",
    .example =
        "  quire verify model.gguf\n"
        "  quire verify model.gguf -f report.txt --kv q8,q6/q4 --act f32\n",
    .run = run_verify,
};

}  // namespace quire::cli
