// needles: what of its window a model really uses, and what a cache strategy or codec costs of it.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/needle_report.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pieces.h"
#include "cli/session.h"

namespace quire::cli {
namespace {

// With these, the default grid takes some minutes on a small model and two cores.
constexpr int64_t kShortest = 512;
constexpr int64_t kLongestByDefault = 2048;
constexpr int64_t kAnswerRoom = 32;

struct NeedlesOptions {
  ModelOptions model;
  ComputeOptions compute;
  OutputOptions output;
  std::vector<engine::CachePolicy> caches;
  std::vector<kv::KvCodecs> codecs;
  NeedleRules rules;
  std::vector<int64_t> depth_percents = {0, 25, 50, 75, 100};
  int64_t seed = 0;
  std::string svg_file;
};

Result<void> store_tasks(std::vector<NeedleTask>& tasks, std::string_view option,
                         std::string_view value) {
  tasks.clear();
  for (const std::string_view part : split(value, ',')) {
    const auto task = needle_task(part);
    if (!task) {
      return Error{
          ErrorCode::kUsage,
          fmt::format("{} wants a list of single, multi, kv, distractors, two-hop, not '{}'",
                      option, one_line(part))};
    }
    if (std::ranges::count(tasks, *task) == 0) tasks.push_back(*task);
  }
  return {};
}

/// "dynamic,sliding:512+4": each part a way by itself.
ApplyOption store_caches(std::vector<engine::CachePolicy>& caches) {
  return [&caches](std::string_view option, std::string_view value) -> Result<void> {
    for (const std::string_view part : split(value, ',')) {
      QUIRE_TRY_VOID(append_cache(caches)(option, part));
    }
    return {};
  };
}

template <class T>
void sort_and_dedupe(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

class Needles {
 public:
  Needles(const Environment& env, NeedlesOptions options, Output& output)
      : env_(env), options_(std::move(options)), output_(output) {}

  Result<void> execute() {
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "needles", output_));
    QUIRE_TRY_VOID(complete_rules());
    const context::Tokenizer& tokenizer = loaded_.model->tokenizer();
    QUIRE_TRY(prompts_, make_needle_prompts(options_.rules, [&tokenizer](std::string_view text) {
                return std::ssize(tokenizer.encode(text, context::Special::kPlain));
              }));
    for (const engine::CachePolicy& cache : options_.caches) {
      for (const kv::KvCodecs codecs : options_.codecs) {
        if (report_.interrupted) break;
        QUIRE_TRY_VOID(run_with(cache, codecs));
      }
    }
    if (!options_.svg_file.empty()) {
      QUIRE_TRY_VOID(env_.files.write_atomically(options_.svg_file, draw_svg(report_)));
    }
    output_.text(for_people(report_));
    QUIRE_TRY_VOID(output_.finish(to_json(report_)));
    if (report_.interrupted) return Error{ErrorCode::kInterrupted, ""};
    return {};
  }

 private:
  /// What the options leave to the model.
  Result<void> complete_rules() {
    NeedleRules& rules = options_.rules;
    QUIRE_TRY(const auto engine,
              engine::Engine::create(*loaded_.model, engine_options_for({}, {})));
    report_.window = engine->window().tokens;
    if (rules.lengths.empty()) {
      const int64_t most = std::min(report_.window - kAnswerRoom, kLongestByDefault);
      for (int64_t length = kShortest; length <= most; length *= 2) rules.lengths.push_back(length);
      if (rules.lengths.empty()) rules.lengths.push_back(report_.window - kAnswerRoom);
    }
    for (const int64_t percent : options_.depth_percents) {
      rules.depths.push_back(static_cast<double>(percent) / 100.0);
    }
    sort_and_dedupe(rules.lengths);
    sort_and_dedupe(rules.depths);
    if (rules.lengths.back() > report_.window) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("--lengths: {} tokens are beyond the window of {}; --rope-scaling "
                               "stretches it",
                               rules.lengths.back(), report_.window)};
    }
    rules.seed = static_cast<uint64_t>(options_.seed);
    report_.model = model_name(*loaded_.model);
    if (const auto& stretch = loaded_.model->rope_stretch()) {
      report_.rope_scaling = model::name(*stretch);
    }
    report_.rules = rules;
    return {};
  }

  engine::EngineOptions engine_options_for(const engine::CachePolicy& cache,
                                           const kv::KvCodecs& codecs) const {
    engine::EngineOptions wanted =
        engine_options(env_, options_.compute, {.cache = cache, .kv = codecs});
    // The text, and one answer at a time on its pages.
    wanted.static_sequences = 2;
    return wanted;
  }

  Result<void> run_with(const engine::CachePolicy& cache, const kv::KvCodecs& codecs) {
    QUIRE_TRY(const auto engine,
              engine::Engine::create(*loaded_.model, engine_options_for(cache, codecs)));
    NeedleResult result{.cache = name(cache), .kv = std::string(kv::name(codecs)), .run = {}};
    const std::string what = fmt::format("{}, {}", result.cache, result.kv);
    const auto progress = [&](int64_t done, int64_t total) {
      output_.progress(what, static_cast<double>(done) / static_cast<double>(total));
      return !interrupted();
    };
    QUIRE_TRY(result.run, run_needles(*engine, prompts_, progress));
    output_.clear_progress();
    report_.interrupted = result.run.trials.size() < prompts_.size();
    if (!result.run.trials.empty()) report_.results.push_back(std::move(result));
    return {};
  }

  const Environment& env_;
  NeedlesOptions options_;
  Output& output_;
  LoadedModel loaded_;
  std::vector<NeedlePrompt> prompts_;
  NeedleReport report_;
};

void declare_needles(OptionParser& parser, NeedlesOptions& options) {
  declare(parser, options.model);
  parser.heading("What is asked");
  parser.add({{"--tasks"},
              "LIST",
              "of single, multi, kv, distractors, two-hop (default: all)",
              [&options](std::string_view option, std::string_view value) {
                return store_tasks(options.rules.tasks, option, value);
              }});
  parser.add({{"--lengths"},
              "LIST",
              "tokens of a prompt (default 512,1024,2048, as the window allows)",
              store_list(options.rules.lengths, 64, INT32_MAX)});
  parser.add({{"--depths"},
              "LIST",
              "where the fact lies, in percent, for single and distractors (0,25,50,75,100)",
              store_list(options.depth_percents, 0, 100)});
  parser.add({{"--distractors"},
              "N",
              "facts that resemble the one that is asked for (4)",
              store_int(options.rules.distractors, 0, 16)});
  parser.add({{"--trials"},
              "N",
              "of each, with other facts (1)",
              store_int(options.rules.trials, 1, 1000)});
  parser.add({{"--seed"}, "S", "of the facts (0)", store_int(options.seed, 0, INT64_MAX)});
  parser.heading("What is compared");
  parser.add({{"--cache"},
              "LIST",
              "ways of keeping keys and values, such as dynamic,sliding:512+4 (dynamic)",
              store_caches(options.caches)});
  parser.add({{"--kv"}, "LIST", "codecs, each with each way (f16)", store_kv_list(options.codecs)});
  declare_greedy(parser);
  declare(parser, options.compute);
  declare(parser, options.output);
  parser.add({{"--svg"}, "FILE", "draw the maps", store(options.svg_file)});
}

Result<void> run_needles_command(const Command& self, const Environment& env,
                                 std::span<const std::string> args) {
  NeedlesOptions options;
  OptionParser parser("quire needles");
  declare_needles(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  if (options.rules.tasks.empty()) {
    options.rules.tasks = {NeedleTask::kSingle, NeedleTask::kMulti, NeedleTask::kKeyValue,
                           NeedleTask::kDistractors, NeedleTask::kTwoHop};
  }
  if (options.caches.empty()) options.caches.emplace_back();
  if (options.codecs.empty()) options.codecs.emplace_back();
  Output output(env, options.output);
  for (const kv::KvCodecs codecs : options.codecs) warn_of_coarse_codecs(output, codecs);
  return Needles(env, std::move(options), output).execute();
}

}  // namespace

const Command kNeedlesCommand = {
    .name = "needles",
    .arguments = "MODEL [options]",
    .summary = "what of its window a model really uses",
    .example =
        "  quire needles model.gguf\n"
        "  quire needles model.gguf --kv f16,q8,q4 --cache dynamic,sliding:512+4 --svg map.svg\n",
    .run = run_needles_command,
};

}  // namespace quire::cli
