// memory_plan.h: what a model needs for so many sequences of such lengths, and what would fit.
//
//   total = weights + KV (used) + page rounding + pages of a prefill + activations + logits
//         + what the program itself takes
//
// Every term is what the engine then holds: caches by cache_plan.h, scratch by the forward pass's
// own widths, weights in the engine's panels. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/cache_plan.h"
#include "plan/model_shape.h"
#include "plan/weight_types.h"

namespace quire::plan {

inline constexpr int64_t kMaxSequences = 10'000'000;

struct PlanRequest {
  int64_t context = 0;  // tokens that a sequence may reach
  std::optional<int64_t> mean_context =
      std::nullopt;  // tokens that one has on average; absent: context
  int64_t sequences = 1;
  int64_t beams = 1;   // of each sequence, none shared but `shared`
  int64_t shared = 0;  // tokens at the start that all sequences have in common
  kv::KvCodecs kv = {};
  CacheStrategy cache = {};
  const WeightMix* weights = nullptr;  // nullptr: as stored
  int64_t prefill_chunk = 512;
  int64_t threads = 1;
  int64_t memory = 0;  // bytes that may be taken

  int64_t mean_tokens() const { return mean_context.value_or(context); }
  int64_t all_sequences() const { return sequences * beams; }
};

struct MemoryPlan {
  int64_t weights = 0;
  int64_t weights_file = 0;  // the same in a file
  int64_t kv_used = 0;
  int64_t page_rounding = 0;  // held pages beyond used rows
  int64_t prefill = 0;        // pages beyond a window while a chunk of the prompt is read
  int64_t spilled = 0;        // of the held pages, what an offloaded cache keeps on disk
  int64_t activation = 0;
  int64_t logits = 0;
  int64_t overhead = 0;
  int64_t total = 0;  // in memory
};

/// kUsage if a number of the request is impossible or the sums pass what 63 bits count.
Result<void> check_request(const PlanRequest& request);

/// Requires check_request() and check_cache_size(). A total that passes 2^62 is given as 2^62.
MemoryPlan plan_memory(const ModelShape& shape, const PlanRequest& request);

/// The longest context, at most the trained one, that all sequences may reach together within
/// request.memory; 0 if not even one token fits.
int64_t max_context(const ModelShape& shape, const PlanRequest& request);

/// The most sequences of the request's length; 0 if none fits.
int64_t max_sequences(const ModelShape& shape, const PlanRequest& request);

}  // namespace quire::plan
