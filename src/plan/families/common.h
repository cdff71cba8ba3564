// common.h: what the readers of all families share: sizes, windows, experts.
//
// Each function reads the keys that Hugging Face configurations use for one thing, applies the
// family's defaults aloud, and names contradictions. Pure but for the notes of the reader.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/blocks.h"
#include "plan/config_reader.h"
#include "plan/model_shape.h"

namespace quire::plan {

inline constexpr int64_t kMaxHeadDim = 1 << 16;

/// What a family's configuration class fills in; 0: it must be there (head_dim: hidden / heads).
struct SizeDefaults {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;
  int64_t ffn = 0;
  int64_t vocab = 0;
  int64_t context = 0;
  bool tied = false;
  bool ffn_is_read = false;  // `ffn` was read by the family: the key is left alone
  bool latent = false;       // num_key_value_heads and head_dim mean nothing: they are left unread
};

struct Sizes {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn = 0;
  int64_t vocab = 0;
  int64_t context = 0;  // 0: not said
  bool tied = false;
};

Result<Sizes> read_sizes(ConfigReader& config, const SizeDefaults& defaults);

/// heads must share kv_heads evenly.
Result<void> check_heads(const ConfigReader& config, int64_t heads, int64_t kv_heads);

/// A shape with everything but its layers and weights.
ModelShape begin_shape(const ConfigReader& config, const Sizes& sizes);

/// Embedding, final norm of `norm_elements`, head unless tied. Checks the builder's totals.
Result<void> finish_shape(ShapeBuilder& builder, const Sizes& sizes, int64_t norm_elements);

/// How a family tells which layers have a window.
enum class WindowRule : uint8_t {
  kNone,     // no layer has
  kAll,      // every layer, if sliding_window is given
  kQwen,     // use_sliding_window, and then the layers from max_window_layers on
  kPattern,  // every n-th layer is global
  kChunked,  // attention_chunk_size, and every n-th layer is global (Llama 4)
};

struct WindowTraits {
  WindowRule rule = WindowRule::kNone;
  int64_t pattern = 0;         // of kPattern and kChunked
  int64_t default_window = 0;  // if the key is absent; 0: none
};

/// Window tokens of each layer, 0 for global ones. layer_types wins over every other key.
Result<std::vector<int64_t>> read_windows(ConfigReader& config, const Sizes& sizes,
                                          const WindowTraits& traits);

/// The experts of a family, or nothing if the configuration has none.
struct ExpertLayers {
  ExpertsPart part;
  std::vector<bool> sparse;  // which layers have experts
};
Result<std::optional<ExpertLayers>> read_experts(ConfigReader& config, const Sizes& sizes);
/// The feed-forward of one layer: its experts, or `dense`.
void feed_forward(ShapeBuilder& builder, const std::optional<ExpertLayers>& experts, size_t layer,
                  const FfnPart& dense);

/// Attention of these sizes, without norms, biases or windows.
AttentionPart attention_of(const Sizes& sizes);

/// Which layers attend, by a list of their indices.
Result<std::vector<bool>> attending(ConfigReader& config, Keys keys, int64_t layers);
/// The same by layer_types, whose other words are given; `fallback` where there are none.
Result<std::vector<bool>> attending_by_types(ConfigReader& config, int64_t layers,
                                             std::initializer_list<std::string_view> other_words,
                                             std::vector<bool> fallback);

}  // namespace quire::plan
