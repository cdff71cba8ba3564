#include "engine/kv_plan.h"

#include <algorithm>
#include <vector>

namespace quire::engine {

std::vector<kv::LayerKv> kv_layers(const model::ModelConfig& config,
                                   std::optional<SlidingWindow> sliding) {
  std::vector<kv::LayerKv> layers;
  for (const model::LayerConfig& layer : config.layers) {
    kv::LayerKv cached{.num_kv_heads = config.num_kv_heads,
                       .head_dim = config.head_dim,
                       .window_tokens = layer.window_tokens};
    if (sliding && (layer.window_tokens == 0 || layer.window_tokens > sliding->window_tokens)) {
      cached.window_tokens = sliding->window_tokens;
      cached.sink_tokens = sliding->sink_tokens;
    }
    layers.push_back(cached);
  }
  return layers;
}

Result<kv::KvGeometry> kv_geometry(const model::ModelConfig& config, kv::KvCodecs codecs,
                                   std::optional<SlidingWindow> sliding) {
  return kv::KvGeometry::create(kv_layers(config, sliding), codecs);
}

namespace {

/// The largest number of tokens in [0, most] that fits, if fewer always fit as well.
template <class Fits>
int64_t longest(int64_t most, Fits fits) {
  int64_t low = 0;
  int64_t high = most;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// What an offloaded sequence of `tokens` keeps in memory at least.
int64_t offloaded_floor_bytes(const kv::KvGeometry& geometry, int64_t tokens,
                              int64_t chunk_tokens) {
  const int64_t buffers = offload_buffers(geometry);
  const int64_t chunk_pages =
      (std::max<int64_t>(1, chunk_tokens) + kv::kPageTokens - 1) / kv::kPageTokens;
  int64_t bytes = 0;
  int64_t layer = 0;  // the most that all pages of a layer take
  for (const kv::LayerGroup& group : geometry.groups()) {
    const int64_t open = group.peak_open_pages(tokens, chunk_tokens);
    const int64_t sealed = group.peak_sealed_pages(tokens, chunk_tokens);
    const bool lossless = group.is_lossless();
    const bool spills = group.num_layers() > buffers;
    const int64_t full = lossless ? open : sealed;  // those that may be spilled
    const int64_t page = lossless ? group.page_bytes() : group.sealed_page_bytes();
    // The pages under a chunk, the one that it starts in, and the last full one.
    bytes += page * (spills ? std::min(full, chunk_pages + 2) : full);
    if (!lossless) bytes += group.page_bytes() * open;
    if (spills) layer = std::max(layer, full * page / group.num_layers());
  }
  return bytes + buffers * layer;
}

}  // namespace

int64_t affordable_tokens(const kv::KvGeometry& geometry, int64_t bytes, int64_t most,
                          int64_t chunk_tokens) {
  return longest(
      most, [&](int64_t tokens) { return geometry.peak_bytes(tokens, chunk_tokens) <= bytes; });
}

int32_t offload_buffers(const kv::KvGeometry& geometry) {
  const auto& groups = geometry.groups();
  const bool deep = std::all_of(groups.begin(), groups.end(),
                                [](const kv::LayerGroup& g) { return g.num_layers() > 2; });
  return deep ? 2 : 1;
}

int64_t offloadable_tokens(const kv::KvGeometry& geometry, const OffloadRoom& room, int64_t most,
                           int64_t chunk_tokens) {
  return longest(most, [&](int64_t tokens) {
    return offloaded_floor_bytes(geometry, tokens, chunk_tokens) <= room.memory_bytes &&
           geometry.peak_bytes(tokens, chunk_tokens) <= room.memory_bytes + room.spill_bytes;
  });
}

}  // namespace quire::engine
