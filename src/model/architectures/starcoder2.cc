// starcoder2: LayerNorm, rotary GQA attention, GELU without a gate, biases. // arXiv:2402.19173
#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kHfTypes = {"starcoder2"};

constexpr std::array<TensorName, 8> kLayerTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQuery, "attn_q", "self_attn.q_proj", Bias::kIfPresent},
    {kKey, "attn_k", "self_attn.k_proj", Bias::kIfPresent},
    {kValue, "attn_v", "self_attn.v_proj", Bias::kIfPresent},
    {kAttentionOut, "attn_output", "self_attn.o_proj", Bias::kIfPresent},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {kUp, "ffn_up", "mlp.c_fc", Bias::kIfPresent},
    {kDown, "ffn_down", "mlp.c_proj", Bias::kIfPresent},
}};

ModelConfig completed(ModelConfig c, RopeConfig rope) {
  c.norm = NormKind::kLayer;
  c.activation = FfnActivation::kGeluTanh;
  return with_uniform_layers(std::move(c), std::move(rope));
}

Result<ModelConfig> windowed(ModelConfig c, int32_t window) {
  if (window == 0) return c;
  return with_windows(std::move(c), window, [](int32_t) { return true; });
}

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  const GgufKeys keys(*files.gguf(), "starcoder2");
  QUIRE_TRY(ModelConfig c, keys.common(NormKind::kLayer));
  QUIRE_TRY(RopeConfig rope, keys.rope(c.head_dim));
  QUIRE_TRY(const int32_t window, keys.int_or("attention.sliding_window", 0));
  return windowed(completed(std::move(c), std::move(rope)), window);
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_text("hidden_act", "gelu_pytorch_tanh"));
  QUIRE_TRY(ModelConfig c, config.common());
  c.architecture = "starcoder2";
  QUIRE_TRY(const double eps, config.number_or("norm_epsilon", 1e-5));
  c.norm_eps = static_cast<float>(eps);
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", true));
  QUIRE_TRY(RopeConfig rope, config.rope("full_attention", c.head_dim));
  QUIRE_TRY(const int32_t window, config.int_or("sliding_window", 0));
  return windowed(completed(std::move(c), std::move(rope)), window);
}

}  // namespace

const Architecture kStarcoder2 = {
    .name = "starcoder2",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
};

}  // namespace quire::model
