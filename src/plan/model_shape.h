// model_shape.h: what a model weighs and caches, as far as its configuration tells.
//
// Knows many more architectures than Quire runs: mixtures of experts, latent attention, linear
// attention and state-space layers, shared keys and values. Every number has been checked by the
// time a ModelShape exists; notes say in sentences what the configuration left out and which
// default its family implies. A plain value.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/element_type.h"

namespace quire::plan {

/// What a matrix is for, as far as quantizers care.
enum class WeightRole : uint8_t {
  kEmbedding,
  kHead,
  kQuery,
  kKey,
  kValue,
  kFusedQkv,
  kAttentionOut,
  kGate,
  kUp,
  kDown,
  kOtherMatrix,
  kSmall,  // routers, convolutions, norms, biases: quantizers leave them as floats
};

/// `count` equal matrices [rows, cols]; a vector has one row.
struct Weight {
  WeightRole role = WeightRole::kSmall;
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t count = 1;  // the experts of a layer
  int32_t layer = -1;

  int64_t elements() const { return rows * cols * count; }
};

/// What one layer keeps for each sequence: rows of keys and values, a state, both or nothing.
struct LayerCache {
  int32_t num_kv_heads = 0;  // 0: no rows
  int32_t key_dim = 0;
  int32_t value_dim = 0;      // 0: the value is read from the key (latent attention)
  int32_t window_tokens = 0;  // 0: sees everything
  int64_t state_bytes = 0;    // whatever the length

  /// What multi-head attention would keep instead: as many kv heads as heads.
  int32_t mha_heads = 0;
  int32_t mha_key_dim = 0;
  int32_t mha_value_dim = 0;

  friend bool operator==(const LayerCache&, const LayerCache&) = default;
};

/// Widths of the scratch that one forward pass needs.
struct ActivationWidths {
  int64_t hidden = 0;
  int64_t query = 0;
  int64_t key_value = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t num_ropes = 1;
};

/// How the weights of files at hand are stored.
struct StoredWeights {
  int64_t parameters = 0;
  int64_t file_bytes = 0;
  int64_t loaded_bytes = 0;  // as the engine lays them out in memory
  std::string types;         // "210 q4_1, 61 f32, 1 q8_0"
};

struct ModelShape {
  std::string family;   // model_type or general.architecture
  int64_t context = 0;  // trained length; 0: the configuration does not say
  int64_t vocab = 0;
  std::vector<LayerCache> layers;
  std::vector<Weight> weights;  // empty: nothing is known of them
  ActivationWidths widths;
  std::string float_type;  // what the configuration says weights are stored in: "bf16"
  std::optional<StoredWeights> stored;
  std::vector<std::string> notes;

  int64_t parameters() const;
};

}  // namespace quire::plan
