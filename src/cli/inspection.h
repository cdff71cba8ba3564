// inspection.h: a cache while it grows, as `quire inspect` measured it, and how that is told.
//
// Each number stands beside the formula's (kv/geometry.h), and the two must be equal. Plain data
// and pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "context/tokenizer.h"
#include "engine/cache_policy.h"
#include "engine/sequence_cache.h"
#include "formats/json.h"
#include "formats/line_chart.h"
#include "kv/geometry.h"
#include "model/config.h"

namespace quire::cli {

/// The cache after one step of the first sequence.
struct GrowthStep {
  enum class Phase : uint8_t { kPrefill, kDecode };
  Phase phase = Phase::kPrefill;
  int64_t input_tokens = 0;      // that the model was given in this step
  std::optional<TokenId> token;  // the one that a decoding step appended
  int64_t tokens = 0;            // in the sequence afterwards
  int64_t bytes_used = 0;
  int64_t bytes_held = 0;     // in memory
  int64_t bytes_spilled = 0;  // in a file
  int64_t formula_used = 0;
  int64_t formula_held = 0;

  [[nodiscard]] bool agrees() const {
    return bytes_used == formula_used && bytes_held + bytes_spilled == formula_held;
  }
};

struct Inspection {
  std::string model;
  const model::ModelConfig* config = nullptr;
  const context::Tokenizer* tokenizer = nullptr;
  const kv::KvGeometry* geometry = nullptr;
  engine::CachePolicy cache;
  int64_t window_tokens = 0;
  int64_t chunk_tokens = 0;
  std::vector<GrowthStep> growth;
  std::vector<engine::SequenceCache> sequences;  // at the end, one a choice
  int64_t total_held = 0;                        // by all of them, shared pages once
  int64_t total_spilled = 0;

  [[nodiscard]] bool agrees() const;
};

formats::Json to_json(const Inspection& inspection);
std::string for_people(const Inspection& inspection);

/// Bytes held over tokens for every codec and strategy, by the formula, and what was measured.
Result<formats::LineChart> growth_chart(const Inspection& inspection);

}  // namespace quire::cli
