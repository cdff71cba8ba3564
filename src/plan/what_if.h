// what_if.h: the same plan with other codecs and weight types, and what to change when it does not
// fit.
//
// Errors are mean KL divergences: of KV codecs measured on SmolLM2-135M, of weight types as
// published for Llama 3 8B (weight_types.h). Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/memory_plan.h"

namespace quire::plan {

struct WhatIf {
  std::string name;  // "q6/q4", "q4_k_m"
  double kl = -1.0;  // negative: not measured
  bool runs = true;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_fixed_bytes = 0;
  MemoryPlan plan;
  int64_t max_context = 0;
  int64_t max_sequences = 0;
};

/// The plan with each usual KV codec.
std::vector<WhatIf> by_codec(const ModelShape& shape, const PlanRequest& request);

/// The plan with each weight type; empty if the shape has no weights.
std::vector<WhatIf> by_weights(const ModelShape& shape, const PlanRequest& request);

/// The changes that make a plan fit which does not, the least harmful first: codecs and weight
/// types by their error, alone and together, then less work. At most a handful of sentences, each
/// with what it saves and costs; one that says so if nothing helps.
std::vector<std::string> cheapest_changes(const ModelShape& shape, const PlanRequest& request);

}  // namespace quire::plan
