// verify: proof that caching changes nothing: every logit with a cache against every logit without.
//
// The f16 cache reads the prompt and takes n greedy steps; those tokens are then given to every
// other configuration, so that all of them compute the same rows. The reference without a cache
// computes the prompt's last row from nothing, then all rows after it from nothing once more
// (--full: from nothing at each step).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/builtin_text.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/session.h"
#include "engine/logit_compare.h"
#include "engine/logprobs.h"

namespace quire::cli {
namespace {

using engine::CacheKind;
using engine::Engine;
using formats::Json;

constexpr int64_t kDefaultTokens = 512;
constexpr kv::KvCodecs kReferenceCodecs{kv::Codec::F16, kv::Codec::F16};

struct VerifyOptions {
  ModelOptions model;
  PromptOptions prompt;
  ComputeOptions compute;
  OutputOptions output;
  std::vector<kv::KvCodecs> codecs = {
      kReferenceCodecs, {kv::Codec::F32, kv::Codec::F32}, {kv::Codec::BF16, kv::Codec::BF16}};
  std::vector<int64_t> lengths;
  int64_t steps = 16;
  bool full = false;
};

/// The prompt's last row and one row a step.
struct Rows {
  std::vector<std::vector<float>> logits;  // [1 + steps][vocab]
  double prefill_ms = 0.0;
  double step_ms = 0.0;  // of one step
  int64_t kv_bytes = 0;

  double total_ms(int64_t steps) const { return prefill_ms + step_ms * static_cast<double>(steps); }
};

/// One way of computing the rows.
struct Setup {
  engine::CachePolicy cache;
  kv::KvCodecs codecs = kReferenceCodecs;
  int64_t prefill_chunk = 512;
  std::optional<int64_t> threads;
};

struct Outcome {
  Setup setup;
  int64_t tokens = 0;
  engine::LogitComparison against_same_codec;
  engine::LogitComparison against_reference;  // f16
  Rows rows;                                  // without logits
  double none_step_ms = 0.0;
};

std::vector<float> copy_of(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

class Verification {
 public:
  Verification(const Environment& env, const VerifyOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "verify", output_));
    QUIRE_TRY(const std::vector<std::vector<TokenId>> prompts, read_prompts());
    for (const std::vector<TokenId>& prompt : prompts) QUIRE_TRY_VOID(verify(prompt));
    output_.clear_progress();
    output_.text(for_people());
    QUIRE_TRY_VOID(output_.finish(document()));
    const auto different = std::ranges::count_if(
        outcomes_, [](const Outcome& o) { return !o.against_same_codec.identical(); });
    if (different == 0) return {};
    return Error{ErrorCode::kCheckFailed,
                 fmt::format("{} of {} configurations differ from recomputing everything",
                             different, outcomes_.size())};
  }

 private:
  Result<std::unique_ptr<Engine>> make_engine(const Setup& setup) const {
    ComputeOptions compute = options_.compute;
    compute.prefill_chunk = setup.prefill_chunk;
    if (setup.threads) compute.threads = setup.threads;
    return Engine::create(*loaded_.model,
                          engine_options(env_, compute, {.cache = setup.cache, .kv = setup.codecs}));
  }

  /// The user's text, or the built-in one, in every length asked for.
  Result<std::vector<std::vector<TokenId>>> read_prompts() {
    QUIRE_TRY(const auto engine, make_engine({}));
    const engine::Window& window = engine->window();
    std::vector<std::vector<TokenId>> prompts;
    const bool given = !options_.prompt.pieces.empty();
    std::vector<TokenId> text;
    if (given) {
      QUIRE_TRY(engine::Prompt prompt, read_prompt(env_, loaded_.prompt_maker(), options_.prompt,
                                                   DefaultRendering::kRaw, output_));
      if (prompt.tokens.empty()) return Error{ErrorCode::kUsage, "the prompt has no tokens"};
      text = std::move(prompt.tokens);
    }
    std::vector<int64_t> lengths = options_.lengths;
    if (lengths.empty() && given) lengths = {static_cast<int64_t>(text.size())};
    // A tiny model's window may not hold the usual length.
    if (lengths.empty()) {
      lengths = {std::clamp<int64_t>(window.tokens - options_.steps, 1, kDefaultTokens)};
    }
    for (const int64_t length : lengths) {
      QUIRE_TRY_VOID(engine::check_fits(window, length, options_.steps));
      if (given && length > static_cast<int64_t>(text.size())) {
        return Error{ErrorCode::kUsage, fmt::format("--lengths {}: the prompt has only {} tokens",
                                                    length, text.size())};
      }
      prompts.push_back(given ? std::vector(text.begin(), text.begin() + length)
                              : builtin_tokens(loaded_.model->tokenizer(), length));
    }
    return prompts;
  }

  Result<void> verify(const std::vector<TokenId>& prompt) {
    QUIRE_TRY(const std::vector<TokenId> steps, greedy_tokens(prompt));
    std::map<std::string, Rows> references;
    const auto reference_of = [&](kv::KvCodecs codecs) -> Result<const Rows*> {
      const std::string key = kv::name(codecs);
      if (!references.contains(key)) {
        QUIRE_TRY(Rows rows, compute({.cache = CacheKind::kNone, .codecs = codecs}, prompt, steps));
        references.emplace(key, std::move(rows));
      }
      return &references.at(key);
    };
    QUIRE_TRY(const Rows* f16, reference_of(kReferenceCodecs));
    references_.push_back({static_cast<int64_t>(prompt.size()), f16->total_ms(options_.steps)});
    for (const Setup& setup : setups()) {
      QUIRE_TRY(const Rows* same_codec, reference_of(setup.codecs));
      QUIRE_TRY(Rows rows, compute(setup, prompt, steps));
      Outcome outcome{.setup = setup, .tokens = static_cast<int64_t>(prompt.size())};
      for (size_t row = 0; row < rows.logits.size(); ++row) {
        outcome.against_same_codec.add(same_codec->logits[row], rows.logits[row]);
        outcome.against_reference.add(f16->logits[row], rows.logits[row]);
      }
      outcome.none_step_ms = same_codec->step_ms;
      rows.logits.clear();
      outcome.rows = std::move(rows);
      outcomes_.push_back(std::move(outcome));
    }
    return {};
  }

  /// Every codec; with --full also other chunks and threads, which must change no bit.
  std::vector<Setup> setups() const {
    std::vector<Setup> setups;
    for (const kv::KvCodecs codecs : options_.codecs) {
      setups.push_back({.codecs = codecs, .prefill_chunk = options_.compute.prefill_chunk});
    }
    if (!options_.full) return setups;
    for (const int64_t chunk : {1, 7, 64}) setups.push_back({.prefill_chunk = chunk});
    for (const int64_t threads : {1, 2, 3}) setups.push_back({.threads = threads});
    return setups;
  }

  Result<void> stop_if_interrupted() const {
    if (interrupted()) return Error{ErrorCode::kInterrupted, "interrupted before the end"};
    return {};
  }

  void show_progress(const Setup& setup, double share) {
    output_.progress(fmt::format("{} {}", engine::name(setup.cache), kv::name(setup.codecs)),
                     share);
  }

  /// What the f16 cache answers, always taking the likeliest token.
  Result<std::vector<TokenId>> greedy_tokens(const std::vector<TokenId>& prompt) {
    QUIRE_TRY(const auto engine, make_engine({.prefill_chunk = options_.compute.prefill_chunk}));
    engine::Sequence sequence = engine->create_sequence();
    QUIRE_TRY(std::span<const float> logits, engine->append(sequence, prompt));
    std::vector<TokenId> tokens;
    while (static_cast<int64_t>(tokens.size()) < options_.steps) {
      QUIRE_TRY_VOID(stop_if_interrupted());
      tokens.push_back(engine::argmax(logits));
      QUIRE_TRY(logits, engine->append(sequence, {&tokens.back(), 1}));
    }
    return tokens;
  }

  Result<Rows> compute(const Setup& setup, const std::vector<TokenId>& prompt,
                       const std::vector<TokenId>& steps) {
    QUIRE_TRY_VOID(stop_if_interrupted());
    QUIRE_TRY(const auto engine, make_engine(setup));
    engine::Sequence sequence = engine->create_sequence();
    Rows rows;
    show_progress(setup, 0.0);
    const Stopwatch prefill;
    QUIRE_TRY(const std::span<const float> last, engine->append(sequence, prompt));
    rows.prefill_ms = prefill.ms();
    rows.logits.push_back(copy_of(last));
    show_progress(setup, 0.5);
    const Stopwatch stepping;
    if (setup.cache.recomputes() && !options_.full) {
      QUIRE_TRY_VOID(append_at_once(*engine, sequence, steps, rows));
      rows.step_ms = stepping.ms();
    } else {
      QUIRE_TRY_VOID(append_one_by_one(*engine, sequence, steps, rows));
      rows.step_ms = stepping.ms() / static_cast<double>(steps.size());
    }
    // Without a cache nothing is held between steps.
    rows.kv_bytes = engine->kv_stats().bytes_held;
    engine->check();
    return rows;
  }

  /// One pass from nothing over everything, that keeps the rows of `steps`.
  Result<void> append_at_once(Engine& engine, engine::Sequence& sequence,
                              const std::vector<TokenId>& steps, Rows& rows) const {
    const auto vocab = static_cast<size_t>(loaded_.model->config().vocab);
    std::vector<float> logits(steps.size() * vocab);
    const engine::StepItem item{
        .sequence = &sequence, .tokens = steps, .logits = engine::StepItem::Logits::kAll};
    QUIRE_TRY_VOID(engine.step({&item, 1}, logits));
    for (size_t row = 0; row < steps.size(); ++row) {
      rows.logits.push_back(copy_of(std::span(logits).subspan(row * vocab, vocab)));
    }
    return {};
  }

  Result<void> append_one_by_one(Engine& engine, engine::Sequence& sequence,
                                 const std::vector<TokenId>& steps, Rows& rows) const {
    for (const TokenId& token : steps) {
      QUIRE_TRY_VOID(stop_if_interrupted());
      QUIRE_TRY(const std::span<const float> logits, engine.append(sequence, {&token, 1}));
      rows.logits.push_back(copy_of(logits));
    }
    return {};
  }

  double speedup(const Outcome& o) const {
    return o.rows.step_ms > 0.0 ? o.none_step_ms / o.rows.step_ms : 0.0;
  }

  Json outcome_json(const Outcome& o) const {
    const engine::LogitComparison& same = o.against_same_codec;
    const std::string codec = kv::name(o.setup.codecs);
    Json json;
    json.set("cache", engine::name(o.setup.cache));
    json.set("kv", codec);
    json.set("lossless", true);
    json.set("against", "none " + codec);
    json.set("tokens", o.tokens);
    json.set("steps", options_.steps);
    json.set("prefill_chunk", o.setup.prefill_chunk);
    if (o.setup.threads) json.set("threads", *o.setup.threads);
    json.set("identical", same.identical());
    json.set("max_abs_diff", same.max_abs_diff());
    json.set("kl_mean", o.against_reference.kl_mean());
    json.set("kl_max", o.against_reference.kl_max());
    json.set("top1_agreement", o.against_reference.top1_agreement());
    Json difference;
    if (const auto first = same.first_difference()) {
      difference.set("step", first->row);
      difference.set("token", first->token);
    }
    json.set("first_difference", std::move(difference));
    json.set("ms", o.rows.total_ms(options_.steps));
    json.set("speedup", speedup(o));
    json.set("bytes", o.rows.kv_bytes);
    return json;
  }

  Json reference_json(size_t index) const {
    Json json;
    json.set("tokens", references_[index].tokens);
    json.set("ms", references_[index].ms);
    json.set("cache", "none");
    json.set("kv", kv::name(kReferenceCodecs));
    json.set("steps", options_.steps);
    return json;
  }

  Json document() const {
    Json json;
    json.set("model", utf8_sanitized(loaded_.model->path()));
    json.set("reference", reference_json(0));
    if (references_.size() > 1) {
      Json all(Json::Array{});
      for (size_t i = 0; i < references_.size(); ++i) all.push_back(reference_json(i));
      json.set("references", std::move(all));
    }
    Json results(Json::Array{});
    for (const Outcome& outcome : outcomes_) results.push_back(outcome_json(outcome));
    json.set("results", std::move(results));
    return json;
  }

  std::string for_people() const {
    std::string out = fmt::format(
        "every logit of the prompt's last token and of {} greedy steps, against no cache at the "
        "same codec\n{:<8} {:<10} {:>7} {:>6} {:>8} {:<22} {:>10} {:>9} {:>10}\n",
        options_.steps, "cache", "kv", "tokens", "chunk", "threads", "result", "KL to f16",
        "speedup", "bytes");
    for (const Outcome& o : outcomes_) {
      const engine::LogitComparison& same = o.against_same_codec;
      const std::string verdict =
          same.identical() ? std::string("identical, bit for bit")
                           : fmt::format("DIFFERS from step {}", same.first_difference()->row);
      out += fmt::format("{:<8} {:<10} {:>7} {:>6} {:>8} {:<22} {:>10.2e} {:>8.1f}x {:>10}\n",
                         engine::name(o.setup.cache), kv::name(o.setup.codecs), o.tokens,
                         o.setup.prefill_chunk,
                         o.setup.threads ? std::to_string(*o.setup.threads) : "default", verdict,
                         o.against_reference.kl_mean(), speedup(o), format_bytes(o.rows.kv_bytes));
    }
    return out + "speedup: of one step, cached against recomputing everything\n";
  }

  struct Reference {
    int64_t tokens;
    double ms;
  };

  const Environment& env_;
  const VerifyOptions& options_;
  Output& output_;
  LoadedModel loaded_;
  std::vector<Reference> references_;
  std::vector<Outcome> outcomes_;
};

Result<void> run_verify(const Command& self, const Environment& env,
                        std::span<const std::string> args) {
  VerifyOptions options;
  OptionParser parser("quire verify");
  declare(parser, options.model);
  declare_text(parser, options.prompt);
  parser.heading("What is compared");
  parser.add({{"-n", "--predict"},
              "N",
              "greedy steps after the prompt (16)",
              store_int(options.steps, 1, 65536)});
  parser.add({{"--kv"}, "LIST", "codecs (default f16,f32,bf16)", store_kv_list(options.codecs)});
  parser.add({{"--lengths"},
              "LIST",
              "prompt lengths in tokens (default: the whole prompt; 512 of the built-in text)",
              store_list(options.lengths, 1, INT32_MAX)});
  parser.add({{"--full"},
              "",
              "recompute everything at each single step, and try other chunks and threads",
              set(options.full)});
  declare_greedy(parser);
  declare(parser, options.compute);
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return Verification(env, options, output).execute();
}

}  // namespace

const Command kVerifyCommand = {
    .name = "verify",
    .arguments = "MODEL [options]",
    .summary = "prove that caching changes no bit of any logit",
    .example =
        "  quire verify model.gguf\n"
        "  quire verify model.gguf -f report.txt --kv f16 -n 64 --full\n",
    .run = run_verify,
};

}  // namespace quire::cli
