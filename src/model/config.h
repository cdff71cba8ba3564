// config.h: what a model is, in numbers: all that the one transformer needs to know.
//
// Architectures differ only in how they fill this in (model/architectures/), never in a forward
// pass of their own. Every number has been checked by the time a ModelConfig exists. A plain value.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::model {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

/// How one kind of layer rotates queries and keys. // RoFormer, arXiv:2104.09864
struct RopeConfig {
  double theta = 10000.0;
  int32_t dims = 0;  // rotated dimensions of a head, even
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  // kLlama3 only: frequencies between the two are interpolated. // Llama 3.1 model card
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_context = 8192.0;
  std::vector<float> divisors;  // [dims / 2] or empty: each frequency is divided by its own
};

enum class FfnActivation : uint8_t { kSwiGlu, kGeGluTanh };

struct LayerConfig {
  int32_t window_tokens = 0;  // key j is visible to query i iff 0 <= i - j < window; 0: global
  int32_t rope = 0;           // index into ModelConfig::ropes
};

struct ModelConfig {
  std::string architecture;  // GGUF's name: "llama"
  int32_t num_layers = 0;
  int32_t hidden = 0;
  int32_t ffn = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab = 0;
  int32_t context = 0;  // trained length
  float norm_eps = 0.0f;
  float attention_scale = 0.0f;
  float embedding_scale = 1.0f;
  FfnActivation activation = FfnActivation::kSwiGlu;
  bool qk_norm = false;     // RMSNorm over each head of q and k, before rotation
  bool post_norms = false;  // RMSNorm of what attention and feed-forward add to the stream
  bool tied_head = false;   // the head is the embedding
  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layers;  // [num_layers]

  int64_t q_width() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_width() const { return int64_t{num_kv_heads} * head_dim; }
};

/// Refuses what no model can be: counts that are not positive, absurdly large, or do not divide.
/// The sentence names the number. Every description passes its result through here.
Result<ModelConfig> checked(ModelConfig config);

}  // namespace quire::model
