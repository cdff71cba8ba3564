// bench: how fast a model reads and writes here, at several depths, batches, codecs and threads.
//
// Decoding is judged against the rate at which this machine reads memory, measured beside it: a
// token needs all weights and its sequence's keys and values once. Prefill is judged against the
// processor's peak of integer products.
#include <fmt/format.h>

#include "base/machine.h"
#include "cli/bench_report.h"
#include "cli/benchmark.h"
#include "cli/commands.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "formats/printable.h"

namespace quire::cli {
namespace {

struct BenchOptions {
  ModelOptions model;
  ComputeOptions compute;
  OutputOptions output;
  BenchTests tests;
  BenchFormat format = BenchFormat::kTable;
  std::string svg;
};

Result<void> parse_format(BenchOptions& options, std::string_view option, std::string_view value) {
  if (value == "table") {
    options.format = BenchFormat::kTable;
  } else if (value == "json") {
    options.format = BenchFormat::kJson;
  } else if (value == "csv") {
    options.format = BenchFormat::kCsv;
  } else if (value == "md" || value == "markdown") {
    options.format = BenchFormat::kMarkdown;
  } else {
    return Error{ErrorCode::kUsage, fmt::format("{} wants table, json, csv or md, not '{}'", option,
                                                formats::printable(value))};
  }
  return {};
}

void declare_bench(OptionParser& parser, BenchOptions& options) {
  BenchTests& tests = options.tests;
  declare(parser, options.model);
  parser.heading("What is measured");
  parser.add({{"--prefill"},
              "LIST",
              "tokens of prompt to read (default 512; 0: no such test)",
              store_list(tests.prefill, 0, INT32_MAX)});
  parser.add({{"--decode"},
              "N",
              "tokens to write (default 32; 0: no such test)",
              store_int(tests.decode, 0, INT32_MAX)});
  parser.add({{"--depth"},
              "LIST",
              "tokens that are in the cache already (default 0)",
              store_list(tests.depth, 0, INT32_MAX)});
  parser.add({{"--batch"},
              "LIST",
              "sequences that decode in one step, on pages of their own (default 1)",
              store_list(tests.batch, 1, 4096)});
  parser.add({{"--kv"}, "LIST", "codecs (default f16)", store_kv_list(tests.codecs)});
  parser.add({{"--thread-sweep"},
              "LIST",
              "numbers of threads, one after the other, instead of --threads",
              store_list(tests.threads, 1, 1024)});
  parser.add({{"-r", "--repetitions"},
              "N",
              "after one warm-up (default 5)",
              store_int(tests.repetitions, 1, 1000)});
  parser.add({{"--format"},
              "table|json|csv|md",
              "how to print (default table)",
              [&options](std::string_view option, std::string_view value) {
                return parse_format(options, option, value);
              }});
  declare_profile(parser, tests.profile);
  parser.add({{"--svg"}, "FILE", "draw tokens a second against depth", store(options.svg)});
  declare_greedy(parser);
  declare(parser, options.compute);
  declare(parser, options.output);
}

Result<void> run_bench(const Command& self, const Environment& env,
                       std::span<const std::string> args) {
  BenchOptions options;
  OptionParser parser("quire bench");
  declare_bench(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  std::erase(options.tests.prefill, 0);
  options.output.json |= options.format == BenchFormat::kJson;
  Output output(env, options.output);
  QUIRE_TRY(const LoadedModel loaded, load_model(env, options.model, "bench", output));
  QUIRE_TRY(const BenchReport report,
            run_benchmark(env, *loaded.model, options.compute, options.tests, output));
  const BenchSubject subject{.model = loaded.model->path(),
                             .weights_bytes = loaded.model->weights_bytes(),
                             .machine = inspect_machine(env.files).cpu_name,
                             .repetitions = options.tests.repetitions};
  if (!options.svg.empty()) {
    QUIRE_TRY_VOID(
        env.files.write_atomically(options.svg, formats::draw_svg(bench_chart(subject, report))));
  }
  output.text(bench_text(subject, report, options.format));
  return output.finish(bench_json(subject, report));
}

}  // namespace

const Command kBenchCommand = {
    .name = "bench",
    .arguments = "MODEL [options]",
    .summary = "measure reading and writing speed",
    .example =
        "  quire bench model.gguf\n"
        "  quire bench model.gguf --prefill 128,512 --decode 64 --depth 0,2048 --format md\n",
    .run = run_bench,
};

}  // namespace quire::cli
