// kv_plan.h: what a model caches, and how long a context memory has room for.
//
// The one place where a model's numbers become a cache's geometry. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/cache_policy.h"
#include "kv/geometry.h"
#include "model/config.h"

namespace quire::engine {

/// What each layer of a model caches. A sliding window holds in layers that see everything or have
/// a longer window; those with a shorter one keep theirs.
std::vector<kv::LayerKv> kv_layers(const model::ModelConfig& config,
                                   std::optional<SlidingWindow> sliding);

/// What a model of these numbers caches.
Result<kv::KvGeometry> kv_geometry(const model::ModelConfig& config, kv::KvCodecs codecs,
                                   std::optional<SlidingWindow> sliding = std::nullopt);

/// The longest context, at most `most`, whose pages stay within `bytes` at every moment when it is
/// read in chunks of `chunk_tokens`.
int64_t affordable_tokens(const kv::KvGeometry& geometry, int64_t bytes, int64_t most,
                          int64_t chunk_tokens);

/// Memory for pages, and room for more in a spill file.
struct OffloadRoom {
  int64_t memory_bytes = 0;
  int64_t spill_bytes = 0;
};

/// The longest context, at most `most`, of one offloaded sequence: what must be in memory at the
/// worst moment fits there (kv/spill_plan.h), and all its pages fit memory and spill file together.
int64_t offloadable_tokens(const kv::KvGeometry& geometry, const OffloadRoom& room, int64_t most,
                           int64_t chunk_tokens);

}  // namespace quire::engine
