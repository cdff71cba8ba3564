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

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope };

/// How one kind of layer rotates queries and keys. // RoFormer, arXiv:2104.09864
struct RopeConfig {
  double theta = 10000.0;
  int32_t dims = 0;  // rotated dimensions of a head, even
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  // kLlama3 only: frequencies between the two are interpolated. // Llama 3.1 model card
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_context = 8192.0;  // of all scalings but kLinear
  // kYarn only: pairs that turn more often than beta_fast times in the original context keep their
  // frequency, those below beta_slow are stretched whole. // YaRN, arXiv:2309.00071
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool whole_pairs = true;           // the range between them is widened to whole pairs
  double magnitude = 1.0;            // cos and sin are multiplied by it
  std::vector<float> divisors = {};  // [dims / 2] or empty: each frequency is divided by its own
  // kLongRope only: what stands for `divisors` in a cache whose window is beyond original_context.
  std::vector<float> long_divisors = {};  // [dims / 2] or empty // LongRoPE, arXiv:2402.13753
};

enum class FfnActivation : uint8_t {
  kSwiGlu,     // silu(gate) * up
  kGeGluTanh,  // gelu_tanh(gate) * up
  kGeluTanh,   // gelu_tanh(up), no gate
  kGeluErf,    // gelu(up), no gate
};
constexpr bool is_gated(FfnActivation a) {
  return a == FfnActivation::kSwiGlu || a == FfnActivation::kGeGluTanh;
}

enum class NormKind : uint8_t { kRms, kLayer };

/// RMSNorm of q and k before rotation.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,  // each head by itself
  kRows,   // the heads of a token together
};

/// What the feed-forward block of a layer reads.
enum class Residual : uint8_t {
  kSequential,       // the stream with attention's part added
  kParallel,         // the stream as attention saw it, through a norm of its own
  kParallelOneNorm,  // the same, through attention's norm
};

/// Feed-forward blocks of which a router picks a few for each token. // arXiv:2401.04088
struct ExpertConfig {
  int32_t count = 0;  // 0: the model has none
  int32_t per_token = 0;
  int32_t ffn = 0;          // of one expert
  int32_t shared_ffn = 0;   // of the expert that every token takes, behind a sigmoid gate; 0: none
  bool renormalise = true;  // the chosen experts' shares are made to sum to 1
};

struct LayerConfig {
  int32_t window_tokens = 0;  // key j is visible to query i iff 0 <= i - j < window; 0: global
  int32_t rope = 0;           // index into ModelConfig::ropes; kNoRope: not rotated
  bool experts = false;       // the feed-forward block is ModelConfig::experts
};
inline constexpr int32_t kNoRope = -1;

struct ModelConfig {
  std::string architecture;  // GGUF's name: "llama"
  int32_t num_layers = 0;
  int32_t hidden = 0;
  int32_t ffn = 0;  // of dense layers
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab = 0;
  int32_t context = 0;  // trained length
  NormKind norm = NormKind::kRms;
  float norm_eps = 0.0f;
  float attention_scale = 0.0f;
  float attention_soft_cap = 0.0f;  // of attention's scores; 0: none
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // of what a block adds to the stream
  float logit_scale = 1.0f;
  float logit_soft_cap = 0.0f;  // of the logits; 0: none
  FfnActivation activation = FfnActivation::kSwiGlu;
  QkNorm qk_norm = QkNorm::kNone;
  Residual residual = Residual::kSequential;
  bool pre_norms = true;           // norm of what a block reads
  bool post_norms = false;         // norm of what a block adds to the stream
  bool learned_positions = false;  // [context, hidden] added to the embeddings
  bool tied_head = false;          // the head is the embedding
  ExpertConfig experts;
  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layers;  // [num_layers]

  int64_t q_width() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_width() const { return int64_t{num_kv_heads} * head_dim; }
};

/// What YaRN multiplies cos and sin by. // arXiv:2309.00071, section 3.4
double yarn_magnitude(double factor);
/// What LongRoPE multiplies cos and sin by, with either set of factors. // arXiv:2402.13753
double long_rope_magnitude(double factor, double original_context);

/// 1 / sqrt(head_dim): what most models scale attention by.
float usual_attention_scale(int32_t head_dim);

/// Refuses what no model can be: counts that are not positive, absurdly large, or do not divide.
/// The sentence names the number. Every description passes its result through here.
Result<ModelConfig> checked(ModelConfig config);

}  // namespace quire::model
