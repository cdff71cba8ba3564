#include "cli/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/machine.h"
#include "cli/builtin_text.h"
#include "cli/interrupt.h"
#include "cli/profile_report.h"
#include "cli/report.h"
#include "cli/session.h"
#include "engine/engine.h"
#include "engine/machine_limits.h"

namespace quire::cli {
namespace {

using engine::Engine;
using engine::Sequence;

class Benchmark {
 public:
  Benchmark(const Environment& env, const engine::Model& model, const ComputeOptions& compute,
            const BenchTests& tests, Output& output, engine::ReadProbe probe)
      : env_(env),
        model_(model),
        compute_(compute),
        tests_(tests),
        output_(output),
        probe_(std::move(probe)) {}

  Result<BenchReport> run() {
    std::vector<int64_t> threads = tests_.threads;
    if (threads.empty()) threads = {engine_options(env_, compute_, {}).threads};
    for (const int64_t count : threads) {
      compute_.threads = count;
      warn_of_many_threads(env_, output_, compute_);
      pool_ = std::make_unique<ThreadPool>(static_cast<int32_t>(count));
      for (const kv::KvCodecs codecs : tests_.codecs) QUIRE_TRY_VOID(measure_codec(codecs));
    }
    output_.clear_progress();
    return std::move(report_);
  }

 private:
  Result<void> measure_codec(kv::KvCodecs codecs) {
    warn_of_coarse_codecs(output_, codecs);
    engine::EngineOptions options = engine_options(env_, compute_, {.kv = codecs});
    if (tests_.profile) options.profile = &profile_;
    QUIRE_TRY(engine_, Engine::create(model_, options));
    report_.isa = engine_->isa();
    int8_peak_ = engine::int8_peak(*pool_, report_.isa);
    report_.int8_peak = std::max(report_.int8_peak, int8_peak_);
    QUIRE_TRY_VOID(check_depths());
    for (const int64_t depth : tests_.depth) {
      QUIRE_TRY_VOID(measure_prefill(depth));
      for (const int64_t batch : tests_.batch) QUIRE_TRY_VOID(measure_decode(depth, batch));
    }
    return {};
  }

  Result<void> check_depths() const {
    const int64_t longest =
        std::max(tests_.prefill.empty() ? 0 : std::ranges::max(tests_.prefill), tests_.decode);
    for (const int64_t depth : tests_.depth) {
      QUIRE_TRY_VOID(engine::check_fits(engine_->window(), depth, longest));
    }
    return {};
  }

  std::vector<TokenId> text(int64_t count) const {
    return builtin_tokens(model_.tokenizer(), count);
  }

  /// A sequence of `depth` tokens on its own pages.
  Result<Sequence> deep_sequence(int64_t depth) {
    Sequence sequence = engine_->create_sequence();
    if (depth > 0) QUIRE_TRY_VOID(engine_->append(sequence, text(depth)));
    return sequence;
  }

  /// Runs `work` once to warm up, then as often as asked; each time handles `tokens` tokens.
  template <class Work>
  Result<void> repeat(BenchResult result, int64_t tokens, Work&& work) {
    result.read_rate = probe_.rate(*pool_, step_bytes(result));
    const ProcessorTime before = processor_time(env_.files);
    for (int64_t i = 0; i <= tests_.repetitions; ++i) {
      if (interrupted()) return Error{ErrorCode::kInterrupted, "interrupted before the end"};
      output_.progress(fmt::format("{} at {} x{}", result.test, result.depth, result.batch),
                       static_cast<double>(i) / static_cast<double>(tests_.repetitions + 1));
      QUIRE_TRY(const double ms, work());
      if (i == 0) profile_.clear();  // what came before warmed up
      if (i > 0) result.tok_s.push_back(static_cast<double>(tokens) * 1000.0 / ms);
    }
    const ProcessorTime after = processor_time(env_.files);
    if (after.total > before.total) {
      result.stolen = static_cast<double>(after.stolen - before.stolen) /
                      static_cast<double>(after.total - before.total);
    }
    if (tests_.profile) {
      result.profile_text = profile_text(profile_, engine_->geometry());
      result.profile = profile_json(profile_, engine_->geometry());
    }
    report_.results.push_back(std::move(result));
    return {};
  }

  BenchResult describe(std::string test, int64_t depth, int64_t batch) const {
    return {.test = std::move(test),
            .depth = depth,
            .batch = batch,
            .kv = kv::name(engine_->geometry().codecs()),
            .threads = engine_->num_threads(),
            .tok_s = {},
            .limit_fraction = std::nullopt,
            .profile_text = {},
            .profile = {}};
  }

  Result<void> measure_prefill(int64_t depth) {
    QUIRE_TRY(const Sequence base, deep_sequence(depth));
    for (const int64_t count : tests_.prefill) {
      const std::vector<TokenId> tokens = text(count);
      QUIRE_TRY_VOID(
          repeat(describe(fmt::format("pp{}", count), depth, 1), count, [&]() -> Result<double> {
            Sequence sequence = engine_->fork(base);
            const Stopwatch watch;
            QUIRE_TRY_VOID(engine_->append(sequence, tokens));
            return watch.ms();
          }));
      const double limit = int8_peak_ / engine::prefill_operations(model_.config());
      if (limit > 0) set_fraction(limit);
    }
    return {};
  }

  Result<void> measure_decode(int64_t depth, int64_t batch) {
    if (tests_.decode == 0) return {};
    if (batch > engine_->max_step_tokens()) {
      return Error{ErrorCode::kUsage,
                   fmt::format("--batch {} is more than a step takes ({}); raise "
                               "--prefill-chunk",
                               batch, engine_->max_step_tokens())};
    }
    // Each has its own pages: sequences that share them would read less.
    std::vector<Sequence> bases;
    for (int64_t i = 0; i < batch; ++i) {
      QUIRE_TRY(Sequence base, deep_sequence(depth));
      bases.push_back(std::move(base));
    }
    QUIRE_TRY_VOID(repeat(describe(fmt::format("tg{}", tests_.decode), depth, batch),
                          tests_.decode * batch, [&]() { return decode_once(bases); }));
    set_fraction(decode_limit(report_.results.back()));
    return {};
  }

  void set_fraction(double limit) {
    BenchResult& result = report_.results.back();
    result.limit_fraction = percentile(result.tok_s, 0.5) / limit;
  }

  Result<double> decode_once(const std::vector<Sequence>& bases) {
    std::vector<Sequence> sequences;
    for (const Sequence& base : bases) sequences.push_back(engine_->fork(base));
    const std::vector<TokenId> tokens = text(tests_.decode + 1);
    std::vector<float> logits(sequences.size() * static_cast<size_t>(model_.config().vocab));
    const Stopwatch watch;
    for (int64_t step = 0; step < tests_.decode; ++step) {
      std::vector<engine::StepItem> items;
      for (Sequence& sequence : sequences) {
        items.push_back({.sequence = &sequence,
                         .tokens = std::span(tokens).subspan(static_cast<size_t>(step) + 1, 1)});
      }
      QUIRE_TRY_VOID(engine_->step(items, logits));
    }
    return watch.ms();
  }

  /// Tokens a second if reading memory were all there is to do.
  double decode_limit(const BenchResult& result) const {
    return static_cast<double>(result.batch) * result.read_rate /
           static_cast<double>(step_bytes(result));
  }

  /// What one step reads: all weights, and each sequence's keys and values. Embedding rows are
  /// looked up, not streamed, unless the head is the embedding.
  int64_t step_bytes(const BenchResult& result) const {
    const model::Weights& weights = model_.weights();
    const int64_t looked_up = weights.head.empty() ? 0 : weights.embedding.bytes();
    const int64_t cached = engine_->geometry().used_bytes(result.depth + tests_.decode / 2);
    return model_.weights_bytes() - looked_up + result.batch * cached;
  }

  const Environment& env_;
  const engine::Model& model_;
  ComputeOptions compute_;
  const BenchTests& tests_;
  Output& output_;
  engine::ReadProbe probe_;
  model::Profile profile_;
  std::unique_ptr<ThreadPool> pool_;  // for the probes, as many threads as the engine has
  std::unique_ptr<Engine> engine_;
  double int8_peak_ = 0.0;
  BenchReport report_;
};

}  // namespace

Result<BenchReport> run_benchmark(const Environment& env, const engine::Model& model,
                                  const ComputeOptions& compute, const BenchTests& tests,
                                  Output& output) {
  QUIRE_TRY(engine::ReadProbe probe, engine::ReadProbe::create());
  return Benchmark(env, model, compute, tests, output, std::move(probe)).run();
}

}  // namespace quire::cli
