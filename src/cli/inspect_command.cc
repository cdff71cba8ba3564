// inspect: the cache while a prompt is read and some tokens are written, beside the formula.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/inspection.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "engine/logprobs.h"

namespace quire::cli {
namespace {

using engine::CacheKind;
using engine::Engine;
using engine::Sequence;

constexpr int64_t kMostChoices = 64;

struct InspectOptions {
  ModelOptions model;
  PromptOptions prompt;
  ComputeOptions compute;
  CacheOptions cache;
  OutputOptions output;
  int64_t steps = 16;
  int64_t choices = 1;
  std::string svg;
};

class Inspector {
 public:
  Inspector(const Environment& env, const InspectOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    warn_of_coarse_codecs(output_, options_.cache.kv);
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "inspect", output_));
    QUIRE_TRY(const engine::Prompt prompt,
              read_prompt(env_, loaded_.prompt_maker(), options_.prompt, DefaultRendering::kRaw,
                          output_));
    if (prompt.tokens.empty()) return Error{ErrorCode::kUsage, "the prompt has no tokens"};
    engine::EngineOptions options = engine_options(env_, options_.compute, options_.cache);
    options.static_sequences = static_cast<int32_t>(options_.choices);
    QUIRE_TRY(engine_, Engine::create(*loaded_.model, options));
    QUIRE_TRY_VOID(engine::check_fits(engine_->window(), static_cast<int64_t>(prompt.tokens.size()),
                                      options_.steps));
    describe();
    QUIRE_TRY_VOID(grow(prompt.tokens));
    QUIRE_TRY_VOID(report());
    if (seen_.agrees()) return {};
    return Error{ErrorCode::kCheckFailed,
                 "the cache holds other numbers of bytes than the formula says"};
  }

 private:
  void describe() {
    seen_.model = loaded_.model->path();
    seen_.config = &loaded_.model->config();
    seen_.tokenizer = &loaded_.model->tokenizer();
    seen_.geometry = &engine_->geometry();
    seen_.cache = engine_->cache();
    seen_.window_tokens = engine_->window().tokens;
    seen_.chunk_tokens = engine_->max_step_tokens();
  }

  /// Reads the prompt once; then each choice starts with another of the likeliest tokens and goes
  /// on greedily.
  Result<void> grow(const std::vector<TokenId>& prompt) {
    std::vector<Sequence> sequences;
    sequences.push_back(engine_->create_sequence());
    const auto progress = [this](int64_t done, int64_t total) {
      output_.progress("reading", static_cast<double>(done) / static_cast<double>(total));
      return !interrupted();
    };
    QUIRE_TRY(std::span<const float> logits, engine_->append(sequences.front(), prompt, progress));
    record(GrowthStep::Phase::kPrefill, sequences.front(), {});
    const auto firsts = engine::top_logprobs(logits, static_cast<int32_t>(options_.choices));
    for (int64_t i = 1; i < options_.choices; ++i) {
      sequences.push_back(engine_->fork(sequences.front()));
    }
    for (size_t i = 0; i < sequences.size(); ++i) {
      QUIRE_TRY_VOID(decode(sequences[i], firsts[i].id, i == 0));
    }
    for (const Sequence& sequence : sequences) {
      seen_.sequences.push_back(engine_->cached(sequence));
    }
    seen_.total_held = engine_->kv_stats().bytes_held;
    seen_.total_spilled = engine_->kv_stats().bytes_spilled;
    engine_->check();
    return {};
  }

  Result<void> decode(Sequence& sequence, TokenId token, bool recorded) {
    for (int64_t step = 0; step < options_.steps; ++step) {
      if (interrupted()) return Error{ErrorCode::kInterrupted, "interrupted before the end"};
      output_.progress("writing", static_cast<double>(step) / static_cast<double>(options_.steps));
      QUIRE_TRY(const std::span<const float> logits, engine_->append(sequence, {&token, 1}));
      if (recorded) record(GrowthStep::Phase::kDecode, sequence, token);
      token = engine::argmax(logits);
    }
    return {};
  }

  void record(GrowthStep::Phase phase, const Sequence& sequence, std::optional<TokenId> token) {
    const engine::SequenceCache counted = engine_->cached(sequence);
    const kv::KvGeometry& geometry = engine_->geometry();
    const int64_t tokens = sequence.length();
    const bool recomputes = engine_->cache().recomputes();
    const bool prefill = phase == GrowthStep::Phase::kPrefill;
    GrowthStep step{.phase = phase,
                    .input_tokens = prefill || recomputes ? tokens : 1,
                    .token = token,
                    .tokens = tokens,
                    .bytes_used = counted.bytes_used,
                    .bytes_held = counted.bytes_held,
                    .bytes_spilled = counted.bytes_spilled};
    // Without a cache nothing is left after a step; a static one holds all from the start.
    if (!recomputes) {
      step.formula_used = geometry.used_bytes(tokens);
      step.formula_held = geometry.held_bytes(tokens);
    }
    if (engine_->cache().kind == CacheKind::kStatic) {
      step.bytes_held = engine_->kv_stats().bytes_held;
      step.formula_held = options_.choices *
                          geometry.peak_bytes(engine_->window().tokens, engine_->max_step_tokens());
    }
    seen_.growth.push_back(step);
  }

  Result<void> report() {
    output_.clear_progress();
    if (!options_.svg.empty()) {
      QUIRE_TRY(const formats::LineChart chart, growth_chart(seen_));
      QUIRE_TRY_VOID(env_.files.write_atomically(options_.svg, formats::draw_svg(chart)));
    }
    output_.text(for_people(seen_));
    return output_.finish(to_json(seen_));
  }

  const Environment& env_;
  const InspectOptions& options_;
  Output& output_;
  LoadedModel loaded_;
  std::unique_ptr<Engine> engine_;
  Inspection seen_;
};

Result<void> run_inspect(const Command& self, const Environment& env,
                         std::span<const std::string> args) {
  InspectOptions options;
  OptionParser parser("quire inspect");
  declare(parser, options.model);
  declare_text(parser, options.prompt);
  parser.heading("What is shown");
  parser.add({{"-n", "--predict"},
              "N",
              "tokens to write after the prompt, each the likeliest (16)",
              store_int(options.steps, 0, INT32_MAX)});
  parser.add({{"--choices"},
              "N",
              "continuations of the one prompt, which share its pages (1)",
              store_int(options.choices, 1, kMostChoices)});
  parser.add({{"--svg"},
              "FILE",
              "draw how every codec and strategy grows up to the window",
              store(options.svg)});
  declare_greedy(parser);
  declare(parser, options.compute);
  declare(parser, options.cache);
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return Inspector(env, options, output).execute();
}

}  // namespace

const Command kInspectCommand = {
    .name = "inspect",
    .arguments = "MODEL [options]",
    .summary = "show the cache: shapes, growth, pages, and the formula beside them",
    .example =
        "  quire inspect model.gguf -p 'The quick brown fox' -n 8\n"
        "  quire inspect model.gguf -f report.txt --kv q6/q4 --svg growth.svg\n",
    .run = run_inspect,
};

}  // namespace quire::cli
