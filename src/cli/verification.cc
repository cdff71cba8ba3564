#include "cli/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/builtin_text.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/session.h"
#include "engine/kv_plan.h"
#include "engine/logprobs.h"

namespace quire::cli {
namespace {

using engine::CacheKind;
using engine::CachePolicy;
using engine::Engine;
using engine::Sequence;
using kv::Codec;
using kv::KvCodecs;

constexpr int64_t kDefaultTokens = 512;
constexpr std::array<int64_t, 4> kDefaultLengths = {1, 16, 64, 256};
// Pages under a chunk cannot be spilled: with this one, most of a short prompt is.
constexpr int64_t kOffloadChunk = kv::kPageTokens;
constexpr int64_t kSpeedSteps = 8;
constexpr int kSpeedRuns = 3;
constexpr KvCodecs kPlain{Codec::F16, Codec::F16};

/// The prompt's last row and one row a step.
struct Rows {
  std::vector<std::vector<float>> logits;  // [1 + steps][vocab]
  double prefill_ms = 0.0;
  double step_ms = 0.0;  // of one step
  int64_t kv_bytes = 0;
  int64_t spilled_bytes = 0;
};

std::vector<float> copy_of(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

/// The same mask and codec without a cache.
Setup reference_of(const Setup& setup) {
  Setup none{.cache = CacheKind::kNone, .codecs = setup.codecs};
  none.cache.sliding = setup.cache.sliding;
  return none;
}

/// The least memory in which `tokens` can be offloaded, so that as much as possible is.
Result<int64_t> least_memory(const model::ModelConfig& config, int64_t tokens) {
  QUIRE_TRY(const kv::KvGeometry geometry, engine::kv_geometry(config, kPlain));
  constexpr int64_t kPlenty = INT64_MAX / 4;  // of disk
  int64_t low = 0;
  int64_t high = 2 * geometry.peak_bytes(tokens, kOffloadChunk);  // pages, and buffers at most
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const engine::OffloadRoom room{.memory_bytes = middle, .spill_bytes = kPlenty};
    if (engine::offloadable_tokens(geometry, room, tokens, kOffloadChunk) < tokens) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

class Verification {
 public:
  Verification(const Environment& env, const VerifyOptions& options, Output& output,
               const VerifySeams& seams)
      : env_(env), options_(options), output_(output), seams_(seams) {}

  Result<VerifyRecord> execute() {
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "verify", output_));
    record_.model = loaded_.model->path();
    record_.activations = options_.compute.activations;
    record_.steps = options_.steps;
    QUIRE_TRY_VOID(read_text());
    QUIRE_TRY_VOID(verify_setups());
    for (const int64_t length : lengths_) QUIRE_TRY_VOID(measure_speed(length));
    output_.clear_progress();
    return std::move(record_);
  }

 private:
  Result<std::unique_ptr<Engine>> make_engine(const Setup& setup) const {
    ComputeOptions compute = options_.compute;
    compute.prefill_chunk = setup.prefill_chunk;
    if (setup.threads) compute.threads = setup.threads;
    return Engine::create(*loaded_.model, engine_options(env_, compute,
                                                         {.cache = setup.cache,
                                                          .kv = setup.codecs,
                                                          .spill_dir = options_.spill_dir}));
  }

  /// The user's text, or the built-in one, and the lengths at which speed is measured.
  Result<void> read_text() {
    QUIRE_TRY(const auto engine, make_engine({}));
    const engine::Window& window = engine->window();
    if (options_.prompt.pieces.empty()) {
      // A tiny model's window may not hold the usual length.
      const int64_t count = std::clamp<int64_t>(window.tokens - options_.steps, 1, kDefaultTokens);
      prompt_ = builtin_tokens(loaded_.model->tokenizer(), count);
    } else {
      QUIRE_TRY(engine::Prompt prompt, read_prompt(env_, loaded_.prompt_maker(), options_.prompt,
                                                   DefaultRendering::kRaw, output_));
      if (prompt.tokens.empty()) return Error{ErrorCode::kUsage, "the prompt has no tokens"};
      prompt_ = std::move(prompt.tokens);
    }
    record_.prompt_tokens = static_cast<int64_t>(prompt_.size());
    QUIRE_TRY_VOID(engine::check_fits(window, record_.prompt_tokens, options_.steps));
    lengths_ = options_.lengths;
    for (const int64_t length : lengths_) {
      QUIRE_TRY_VOID(engine::check_fits(window, length, kSpeedSteps));
    }
    if (!lengths_.empty()) return {};
    for (const int64_t length : kDefaultLengths) {
      if (length + kSpeedSteps <= window.tokens) lengths_.push_back(length);
    }
    return {};
  }

  Result<std::vector<Setup>> setups() {
    const int64_t chunk = options_.compute.prefill_chunk;
    if (options_.caches.empty() && options_.codecs.empty()) {
      QUIRE_TRY(std::vector<Setup> all,
                default_setups(loaded_.model->config(), record_.prompt_tokens, options_.steps,
                               chunk, options_.full));
      std::erase_if(all, [this](const Setup& setup) { return !has_disk(setup); });
      return all;
    }
    const std::vector<CachePolicy> caches =
        options_.caches.empty() ? std::vector<CachePolicy>(1) : options_.caches;
    const std::vector<KvCodecs> codecs =
        options_.codecs.empty() ? std::vector<KvCodecs>{kPlain} : options_.codecs;
    std::vector<Setup> setups;
    for (const CachePolicy& cache : caches) {
      for (const KvCodecs pair : codecs) {
        setups.push_back({.cache = cache, .codecs = pair, .prefill_chunk = chunk});
      }
    }
    return setups;
  }

  /// Whether what would be spilled has a place; if not, the record says why.
  bool has_disk(const Setup& setup) {
    if (!setup.cache.offload_bytes) return true;
    const auto engine = make_engine(setup);
    if (engine.ok()) return true;
    record_.left_out = fmt::format("offloaded is left out: {}", engine.error().message);
    return false;
  }

  Result<void> verify_setups() {
    QUIRE_TRY(const std::vector<TokenId> steps, greedy_tokens());
    std::map<std::string, Rows> references;
    const auto reference = [&](const Setup& setup) -> Result<const Rows*> {
      const Setup none = reference_of(setup);
      const std::string key = engine::name(none.cache) + " " + kv::name(none.codecs);
      if (!references.contains(key)) {
        QUIRE_TRY(Rows rows, compute(none, steps));
        references.emplace(key, std::move(rows));
      }
      return &references.at(key);
    };
    QUIRE_TRY(const Rows* plain, reference({.codecs = kPlain}));
    record_.reference_ms = plain->prefill_ms + plain->step_ms * static_cast<double>(options_.steps);
    QUIRE_TRY(const std::vector<Setup> wanted, setups());
    for (const Setup& setup : wanted) {
      QUIRE_TRY(const Rows* same, reference(setup));
      QUIRE_TRY(const Rows rows, compute(setup, steps));
      Outcome outcome = describe(setup, rows);
      for (size_t row = 0; row < rows.logits.size(); ++row) {
        outcome.against_same.add(same->logits[row], rows.logits[row]);
        outcome.against_plain.add(plain->logits[row], rows.logits[row]);
      }
      outcome.ms = rows.prefill_ms + rows.step_ms * static_cast<double>(options_.steps);
      outcome.step_ms = rows.step_ms;
      outcome.none_step_ms = same->step_ms;
      outcome.kv_bytes = rows.kv_bytes;
      record_.outcomes.push_back(std::move(outcome));
    }
    return {};
  }

  /// What the rows of this setup can show: the last one is that of a query at `last`.
  Outcome describe(const Setup& setup, const Rows& rows) const {
    const int64_t last = record_.prompt_tokens + options_.steps - 1;
    const auto& sliding = setup.cache.sliding;
    const bool attends_all = !sliding || last < sliding->window_tokens;
    Outcome outcome{.setup = setup};
    outcome.lossless = kv::is_lossless(setup.codecs) && attends_all;
    const auto add = [&outcome](std::string text) {
      outcome.note += (outcome.note.empty() ? "" : "; ") + std::move(text);
    };
    if (sliding && attends_all) {
      add(fmt::format("all {} tokens fit the window: nothing was left out", last + 1));
    }
    // A query reads its own page and page 0 as they were written.
    if (!kv::is_lossless(setup.codecs) && last < 2 * kv::kPageTokens) {
      add(fmt::format("no query read a sealed page: {} tokens are fewer than {}", last + 1,
                      2 * kv::kPageTokens + 1));
    }
    if (setup.cache.offload_bytes && rows.spilled_bytes == 0) {
      add("nothing was spilled: all pages fit in memory");
    }
    return outcome;
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
  Result<std::vector<TokenId>> greedy_tokens() {
    QUIRE_TRY(const auto engine, make_engine({.prefill_chunk = options_.compute.prefill_chunk}));
    Sequence sequence = engine->create_sequence();
    QUIRE_TRY(std::span<const float> logits, engine->append(sequence, prompt_));
    std::vector<TokenId> tokens;
    while (static_cast<int64_t>(tokens.size()) < options_.steps) {
      QUIRE_TRY_VOID(stop_if_interrupted());
      tokens.push_back(engine::argmax(logits));
      QUIRE_TRY(logits, engine->append(sequence, {&tokens.back(), 1}));
    }
    return tokens;
  }

  Result<Rows> compute(const Setup& setup, const std::vector<TokenId>& steps) {
    QUIRE_TRY_VOID(stop_if_interrupted());
    QUIRE_TRY(const auto engine, make_engine(setup));
    Sequence sequence = engine->create_sequence();
    Rows rows;
    show_progress(setup, 0.0);
    const Stopwatch prefill;
    QUIRE_TRY(const std::span<const float> last, engine->append(sequence, prompt_));
    rows.prefill_ms = prefill.ms();
    rows.logits.push_back(copy_of(last));
    if (seams_.after_prompt && !setup.cache.recomputes()) seams_.after_prompt(*engine, sequence);
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
    rows.spilled_bytes = engine->kv_stats().bytes_spilled;
    engine->check();
    return rows;
  }

  /// One pass from nothing over everything, that keeps the rows of `steps`.
  Result<void> append_at_once(Engine& engine, Sequence& sequence, const std::vector<TokenId>& steps,
                              Rows& rows) const {
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

  Result<void> append_one_by_one(Engine& engine, Sequence& sequence,
                                 const std::vector<TokenId>& steps, Rows& rows) const {
    for (const TokenId& token : steps) {
      QUIRE_TRY_VOID(stop_if_interrupted());
      QUIRE_TRY(const std::span<const float> logits, engine.append(sequence, {&token, 1}));
      rows.logits.push_back(copy_of(logits));
    }
    return {};
  }

  /// Reads `length` tokens and takes kSpeedSteps steps of the text that follows them.
  struct TimedSteps {
    std::vector<double> ms;                  // one a step
    std::vector<std::vector<float>> logits;  // one a step
  };
  Result<TimedSteps> time_steps(Engine& engine, int64_t length) const {
    const std::vector<TokenId> text =
        builtin_tokens(loaded_.model->tokenizer(), length + kSpeedSteps);
    Sequence sequence = engine.create_sequence();
    QUIRE_TRY_VOID(engine.append(sequence, std::span(text).first(static_cast<size_t>(length))));
    TimedSteps timed;
    for (const TokenId& token : std::span(text).subspan(static_cast<size_t>(length))) {
      QUIRE_TRY_VOID(stop_if_interrupted());
      const Stopwatch watch;
      QUIRE_TRY(const std::span<const float> logits, engine.append(sequence, {&token, 1}));
      timed.ms.push_back(watch.ms());
      timed.logits.push_back(copy_of(logits));
    }
    return timed;
  }

  Result<void> measure_speed(int64_t length) {
    const int64_t chunk = options_.compute.prefill_chunk;
    const Setup none{.cache = CacheKind::kNone, .prefill_chunk = chunk};
    const Setup dynamic{.prefill_chunk = chunk};
    output_.progress(fmt::format("speed at {}", length), 0.0);
    QUIRE_TRY(const auto uncached, make_engine(none));
    QUIRE_TRY(const auto cached, make_engine(dynamic));
    // The first read of the prompt warms the uncached engine up, a whole run the cached one.
    QUIRE_TRY(const TimedSteps reference, time_steps(*uncached, length));
    QUIRE_TRY(TimedSteps timed, time_steps(*cached, length));
    std::vector<double> means;
    for (int run = 0; run < kSpeedRuns; ++run) {
      output_.progress(fmt::format("speed at {}", length), (run + 1.0) / (kSpeedRuns + 1.0));
      QUIRE_TRY(timed, time_steps(*cached, length));
      means.push_back(mean(timed.ms));
    }
    SpeedRow row{
        .tokens = length, .none_ms = percentile(reference.ms, 0.5), .ms = percentile(means, 0.5)};
    for (size_t i = 0; i < timed.logits.size(); ++i) {
      row.comparison.add(reference.logits[i], timed.logits[i]);
    }
    record_.speeds.push_back(std::move(row));
    return {};
  }

  static double mean(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }

  const Environment& env_;
  const VerifyOptions& options_;
  Output& output_;
  const VerifySeams& seams_;
  LoadedModel loaded_;
  std::vector<TokenId> prompt_;
  std::vector<int64_t> lengths_;
  VerifyRecord record_;
};

}  // namespace

Result<std::vector<Setup>> default_setups(const model::ModelConfig& config, int64_t tokens,
                                          int64_t steps, int64_t prefill_chunk, bool full) {
  std::vector<Setup> setups;
  const auto add = [&](CachePolicy cache, KvCodecs codecs) {
    setups.push_back({.cache = std::move(cache), .codecs = codecs, .prefill_chunk = prefill_chunk});
  };
  for (const KvCodecs codecs : {kPlain,
                                KvCodecs{Codec::Q8, Codec::Q8},
                                {Codec::Q6, Codec::Q6},
                                KvCodecs{Codec::Q4, Codec::Q4},
                                {Codec::Q6, Codec::Q4}}) {
    add({}, codecs);
  }
  add(CacheKind::kStatic, kPlain);
  CachePolicy sliding;
  sliding.sliding = {.window_tokens = static_cast<int32_t>(std::max<int64_t>(1, tokens / 2)),
                     .sink_tokens = 4};
  add(sliding, kPlain);
  CachePolicy offloaded;
  QUIRE_TRY(offloaded.offload_bytes, least_memory(config, tokens + steps));
  setups.push_back({.cache = offloaded, .prefill_chunk = kOffloadChunk});
  if (!full) return setups;
  add({}, {Codec::F32, Codec::F32});
  add({}, {Codec::BF16, Codec::BF16});
  add({}, {Codec::Q3, Codec::Q3});
  add(sliding, {Codec::Q8, Codec::Q8});
  for (const int64_t chunk : {1, 7, 64}) setups.push_back({.cache = {}, .prefill_chunk = chunk});
  for (const int64_t threads : {1, 2, 3}) {
    setups.push_back({.cache = {}, .prefill_chunk = prefill_chunk, .threads = threads});
  }
  return setups;
}

int64_t VerifyRecord::count_different() const {
  return std::ranges::count_if(outcomes,
                               [](const Outcome& o) { return !o.against_same.identical(); }) +
         std::ranges::count_if(speeds, [](const SpeedRow& s) { return !s.comparison.identical(); });
}

Result<VerifyRecord> verify(const Environment& env, const VerifyOptions& options, Output& output,
                            const VerifySeams& seams) {
  return Verification(env, options, output, seams).execute();
}

Result<void> verdict(const VerifyRecord& record) {
  if (record.count_different() == 0) return {};
  return Error{
      ErrorCode::kCheckFailed,
      fmt::format("{} of {} comparisons differ from recomputing everything",
                  record.count_different(), record.outcomes.size() + record.speeds.size())};
}

}  // namespace quire::cli
