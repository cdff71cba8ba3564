// kv_plan.h: what a model caches, and how long a context memory has room for.
//
// The one place where a model's numbers become a cache's geometry. Pure functions.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "kv/geometry.h"
#include "model/config.h"

namespace quire::engine {

/// What a model of these numbers caches.
Result<kv::KvGeometry> kv_geometry(const model::ModelConfig& config, kv::KvCodecs codecs);

/// The longest context, at most `most`, whose pages stay within `bytes` at every moment when it is
/// read in chunks of `chunk_tokens`.
int64_t affordable_tokens(const kv::KvGeometry& geometry, int64_t bytes, int64_t most,
                          int64_t chunk_tokens);

}  // namespace quire::engine
