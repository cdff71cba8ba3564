#include "kv/spill_plan.h"

#include <algorithm>

#include "base/integer_math.h"

namespace quire::kv {

int32_t spill_buffers(const KvGeometry& geometry) {
  const auto& groups = geometry.groups();
  const bool deep = std::all_of(groups.begin(), groups.end(),
                                [](const LayerGroup& group) { return group.num_layers() > 2; });
  return deep ? 2 : 1;
}

bool gains_by_spilling(const KvGeometry& geometry, const LayerGroup& group) {
  return group.num_layers() > spill_buffers(geometry);
}

int64_t spilled_floor_bytes(const KvGeometry& geometry, int64_t tokens, int64_t chunk_tokens) {
  const int64_t chunk_pages = divide_up(std::max<int64_t>(1, chunk_tokens), kPageTokens);
  int64_t bytes = 0;
  int64_t layer = 0;  // the most that all pages of a layer take
  for (const LayerGroup& group : geometry.groups()) {
    const int64_t open = group.peak_open_pages(tokens, chunk_tokens);
    const int64_t sealed = group.peak_sealed_pages(tokens, chunk_tokens);
    const bool lossless = group.is_lossless();
    const bool spills = gains_by_spilling(geometry, group);
    const int64_t full = lossless ? open : sealed;  // those that may be spilled
    const int64_t page = lossless ? group.page_bytes() : group.sealed_page_bytes();
    bytes += page * (spills ? std::min(full, chunk_pages + 2) : full);
    if (!lossless) bytes += group.page_bytes() * open;
    if (spills) layer = std::max(layer, full * page / group.num_layers());
  }
  return bytes + spill_buffers(geometry) * layer;
}

}  // namespace quire::kv
