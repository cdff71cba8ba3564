// blocks.h: the parts that layers are made of: what each weighs and what it caches.
//
// One function a part: attention, latent attention, the linear-attention and state-space mixers,
// dense and mixed feed-forwards. Their sums are the parameter counts that models publish; where a
// convention is not obvious its source is named. A ShapeBuilder collects parts layer by layer. Pure
// but for the builder, which is used from one thread.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/model_shape.h"

namespace quire::plan {

/// Softmax attention with keys and values a token. // [hidden] -> [hidden]
struct AttentionPart {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t window = 0;          // tokens; 0: global
  int64_t norm_elements = 0;   // norms of q and k
  int64_t small_elements = 0;  // sinks and other vectors
  bool query_bias = false;     // of q, k and v
  bool out_bias = false;
  bool query_gated = false;   // the query projection also yields an output gate
  bool shares_kv = false;     // reads the rows of an earlier layer and has none of its own
  bool value_is_key = false;  // no projection of its own for values
  bool fused = false;         // one matrix for q, k and v
};

/// Multi-head latent attention: one compressed row a token for all heads. // arXiv:2405.04434
struct LatentPart {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t query_rank = 0;  // 0: queries are not compressed
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;
  int64_t rope_dim = 0;
  int64_t value_dim = 0;
  int64_t bias_elements = 0;
};

/// Mamba's selective state space. // arXiv:2312.00752
struct MambaPart {
  int64_t hidden = 0;
  int64_t inner = 0;
  int64_t state = 0;
  int64_t conv = 0;  // kernel width
  int64_t dt_rank = 0;
  bool conv_bias = true;
  bool proj_bias = false;
  bool inner_norms = false;  // Jamba's norms of dt, B and C
};

/// Mamba-2: one state a head. // arXiv:2405.21060
struct Mamba2Part {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t state = 0;
  int64_t groups = 0;
  int64_t conv = 0;
  bool conv_bias = true;
  bool proj_bias = false;
  bool gated_norm = true;
};

/// Gated delta rule, as in Qwen3-Next. // arXiv:2412.06464
struct DeltaNetPart {
  int64_t hidden = 0;
  int64_t key_heads = 0;
  int64_t key_dim = 0;
  int64_t value_heads = 0;
  int64_t value_dim = 0;
  int64_t conv = 0;
};

/// Kimi Delta Attention: a gate for each channel, through a bottleneck of head_dim.
struct KimiDeltaPart {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t conv = 0;
};

struct FfnPart {
  int64_t hidden = 0;
  int64_t width = 0;
  bool gated = true;  // gate and up; else up alone
  bool bias = false;
};

/// Experts beside an optional shared feed-forward.
struct ExpertsPart {
  int64_t hidden = 0;
  int64_t experts = 0;
  int64_t width = 0;
  int64_t shared_width = 0;  // all shared experts together; 0: none
  bool gated = true;
  bool bias = false;
  bool router_bias = false;  // a bias or a balancing term of each expert
  bool shared_gate = false;  // the shared expert has a sigmoid gate
};

/// Collects the parts of a model. Layers are opened one after the other.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(ModelShape& shape) : shape_(shape) {}

  void open_layer() { shape_.layers.emplace_back(); }
  void attention(const AttentionPart& part);
  void latent_attention(const LatentPart& part);
  /// Numbers that the layer's latent rows have beside those of attention: an indexer's key.
  void widen_latent(int64_t dims);
  void mamba(const MambaPart& part);
  void mamba2(const Mamba2Part& part);
  void delta_net(const DeltaNetPart& part);
  void kimi_delta(const KimiDeltaPart& part);
  /// LFM2's gated short convolution.
  void short_convolution(int64_t hidden, int64_t kernel, bool bias);
  /// MiniMax's lightning attention: a state of head_dim x head_dim a head.
  void lightning_attention(int64_t hidden, int64_t heads, int64_t head_dim);
  /// Griffin's real-gated linear recurrence. // arXiv:2402.19427
  void recurrent_unit(int64_t hidden, int64_t width, int64_t heads, int64_t conv);
  void ffn(const FfnPart& part);
  void experts(const ExpertsPart& part);
  /// Norms, biases and whatever else quantizers leave alone.
  void small(int64_t elements);
  void matrix(WeightRole role, int64_t rows, int64_t cols, int64_t count = 1);
  /// From now on weights belong to no layer.
  void outside_layers() { outside_ = true; }

  /// kBadFile if the parts together are larger than any model can be.
  Result<void> check() const;

 private:
  LayerCache& cache() { return shape_.layers.back(); }
  void add_state(int64_t f32_elements, int64_t f16_elements);

  ModelShape& shape_;
  bool outside_ = false;
  bool absurd_ = false;
  int64_t total_ = 0;
};

}  // namespace quire::plan
