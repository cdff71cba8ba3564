#include "engine/kv_plan.h"

#include <vector>

namespace quire::engine {

Result<kv::KvGeometry> kv_geometry(const model::ModelConfig& config, kv::KvCodecs codecs,
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
  return kv::KvGeometry::create(layers, codecs);
}

int64_t affordable_tokens(const kv::KvGeometry& geometry, int64_t bytes, int64_t most,
                          int64_t chunk_tokens) {
  int64_t low = 0;
  int64_t high = most;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (geometry.peak_bytes(middle, chunk_tokens) <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace quire::engine
