#include "engine/kv_plan.h"

#include <vector>

#include "base/integer_math.h"
#include "kv/spill_plan.h"

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

int64_t affordable_tokens(const kv::KvGeometry& geometry, int64_t bytes, int64_t most,
                          int64_t chunk_tokens) {
  return largest_that_fits(
      most, [&](int64_t tokens) { return geometry.peak_bytes(tokens, chunk_tokens) <= bytes; });
}

int64_t offloadable_tokens(const kv::KvGeometry& geometry, const OffloadRoom& room, int64_t most,
                           int64_t chunk_tokens) {
  return largest_that_fits(most, [&](int64_t tokens) {
    return kv::spilled_floor_bytes(geometry, tokens, chunk_tokens) <= room.memory_bytes &&
           geometry.peak_bytes(tokens, chunk_tokens) <= room.memory_bytes + room.spill_bytes;
  });
}

}  // namespace quire::engine
