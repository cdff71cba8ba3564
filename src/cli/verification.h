// verification.h: every logit with a cache against every logit without, and what caching saves.
//
// The f16 cache reads the prompt and takes n greedy steps; those tokens are then given to every
// other setup, so that all of them compute the same rows: that of the prompt's last token and one a
// step. Each is compared bit by bit with `none`, which recomputes everything from nothing, under
// the same mask and codec; and by KL with `none` at f16 under full attention. Use from one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/output.h"
#include "engine/engine.h"
#include "engine/logit_compare.h"

namespace quire::cli {

struct VerifyOptions {
  ModelOptions model;
  PromptOptions prompt;
  ComputeOptions compute;
  OutputOptions output;
  std::vector<engine::CachePolicy> caches;  // both empty: the default matrix
  std::vector<kv::KvCodecs> codecs;
  std::vector<int64_t> lengths;  // empty: some that fit
  std::optional<std::string> spill_dir;
  int64_t steps = 16;
  bool full = false;
};

/// One way of computing the rows.
struct Setup {
  engine::CachePolicy cache;
  kv::KvCodecs codecs = {};
  int64_t prefill_chunk = 512;
  std::optional<int64_t> threads = std::nullopt;
};

struct Outcome {
  Setup setup;
  bool lossless = false;  // rows kept as floats, and every key attended
  std::string note;       // why the row shows less than its name says; usually empty
  engine::LogitComparison against_same = {};   // none under the same mask and codec
  engine::LogitComparison against_plain = {};  // none at f16 under full attention
  double ms = 0.0;                             // prompt and steps
  double step_ms = 0.0;
  double none_step_ms = 0.0;
  int64_t kv_bytes = 0;  // held at the end
};

/// One decoding step after so many tokens, with the default cache and with none.
struct SpeedRow {
  int64_t tokens = 0;
  double none_ms = 0.0;  // median of 8 steps
  double ms = 0.0;       // median of 3 runs of 8 steps, each a step's mean
  engine::LogitComparison comparison = {};

  [[nodiscard]] double speedup() const { return ms > 0.0 ? none_ms / ms : 0.0; }
};

struct VerifyRecord {
  std::string model;
  kernels::ActivationPolicy activations = kernels::ActivationPolicy::kInt8;
  int64_t prompt_tokens = 0;
  int64_t steps = 0;
  double reference_ms = 0.0;  // of none at f16: the prompt and all steps
  std::vector<Outcome> outcomes;
  std::vector<SpeedRow> speeds;
  std::string left_out;  // of the default matrix, and why; usually empty

  /// How many outcomes and speed rows differ from recomputing everything.
  [[nodiscard]] int64_t count_different() const;
};

/// Where a test may break a cache, to see that the difference is found.
struct VerifySeams {
  std::function<void(engine::Engine&, engine::Sequence&)> after_prompt;
};

/// The setups of the default matrix for `tokens` of prompt and `steps`; `full` adds codecs, chunks
/// and threads.
Result<std::vector<Setup>> default_setups(const model::ModelConfig& config, int64_t tokens,
                                          int64_t steps, int64_t prefill_chunk, bool full);

/// Measures everything. What differs is in the record, and no error.
Result<VerifyRecord> verify(const Environment& env, const VerifyOptions& options, Output& output,
                            const VerifySeams& seams = {});

/// kCheckFailed if anything differs.
Result<void> verdict(const VerifyRecord& record);

formats::Json to_json(const VerifyRecord& record);
std::string for_people(const VerifyRecord& record);

}  // namespace quire::cli
