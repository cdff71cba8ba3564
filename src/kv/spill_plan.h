// spill_plan.h: what spilling full pages needs in memory.
//
// Attention reads spilled pages back a layer at a time, into buffers that hold that layer's part of
// all of them. The one place that says how many buffers there are, which groups gain by it, and
// what must stay. Pure functions.
#pragma once
#include <cstdint>

#include "kv/geometry.h"

namespace quire::kv {

/// Buffers for reading back: two, so that one layer is read while another is computed, unless a
/// group has so few layers that two would take what spilling gives.
[[nodiscard]] int32_t spill_buffers(const KvGeometry& geometry);

/// Whether spilling a page of the group frees more than its part of the buffers takes.
[[nodiscard]] bool gains_by_spilling(const KvGeometry& geometry, const LayerGroup& group);

/// What one sequence of `tokens` that is read in chunks of `chunk_tokens` needs in memory at the
/// worst moment: the pages of a chunk, the one that it starts in, the last full one, and buffers
/// for all others.
[[nodiscard]] int64_t spilled_floor_bytes(const KvGeometry& geometry, int64_t tokens,
                                          int64_t chunk_tokens);

}  // namespace quire::kv
