// gemma2: text models of Google's Gemma 2: windows in every second layer, soft caps of scores and
// logits, norms of what each block adds, scaled embeddings, GeGLU. // arXiv:2408.00118
#include <array>
#include <cmath>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kHfTypes = {"gemma2"};

constexpr std::array<TensorName, 11> kLayerTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQuery, "attn_q", "self_attn.q_proj"},
    {kKey, "attn_k", "self_attn.k_proj"},
    {kValue, "attn_v", "self_attn.v_proj"},
    {kAttentionOut, "attn_output", "self_attn.o_proj"},
    {kPostAttentionNorm, "post_attention_norm", "post_attention_layernorm"},
    {kFfnNorm, "ffn_norm", "pre_feedforward_layernorm"},
    {kGate, "ffn_gate", "mlp.gate_proj"},
    {kUp, "ffn_up", "mlp.up_proj"},
    {kDown, "ffn_down", "mlp.down_proj"},
    {kPostFfnNorm, "post_ffw_norm", "post_feedforward_layernorm"},
}};

/// The first layer has a window, the second has none, and so on.
bool even(int32_t layer) {
  return layer % 2 == 0;
}

struct Numbers {
  double query_scalar;
  double score_cap;
  double logit_cap;
};

ModelConfig completed(ModelConfig c, const Numbers& n) {
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  c.attention_scale = static_cast<float>(1.0 / std::sqrt(n.query_scalar));
  c.attention_soft_cap = static_cast<float>(n.score_cap);
  c.logit_soft_cap = static_cast<float>(n.logit_cap);
  c.activation = FfnActivation::kGeGluTanh;
  c.post_norms = true;
  return c;
}

/// GGUF does not store query_pre_attn_scalar: it is the head dimension, but hidden / heads in the
/// 27B.
double gguf_query_scalar(const ModelConfig& c) {
  constexpr int32_t kLayersOf27b = 46;
  return c.num_layers == kLayersOf27b ? static_cast<double>(c.hidden) / c.num_heads : c.head_dim;
}

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "gemma2"));
  const GgufKeys keys(*files.gguf(), "gemma2");
  Numbers n{.query_scalar = gguf_query_scalar(c), .score_cap = 50.0, .logit_cap = 30.0};
  QUIRE_TRY(n.score_cap, keys.number_or("attn_logit_softcapping", n.score_cap));
  QUIRE_TRY(n.logit_cap, keys.number_or("final_logit_softcapping", n.logit_cap));
  QUIRE_TRY(const int32_t window, keys.int_or("attention.sliding_window", 4096));
  QUIRE_TRY(c, with_windows(std::move(c), window, even));
  return completed(std::move(c), n);
}

/// A cap that is null is none; one that is absent has its default.
Result<double> cap(const formats::Json& json, std::string_view key, double fallback) {
  const formats::Json* value = json.find(key);
  if (value != nullptr && value->is_null()) return 0.0;
  return HfConfig(json).number_or(key, fallback);
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_text("hidden_activation", "gelu_pytorch_tanh"));
  QUIRE_TRY(ModelConfig c, config.common());
  c.architecture = "gemma2";
  QUIRE_TRY(c.head_dim, config.int_or("head_dim", 256));
  QUIRE_TRY(RopeConfig rope, config.rope("full_attention", c.head_dim));
  c = with_uniform_layers(std::move(c), std::move(rope));
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", true));
  Numbers n{};
  QUIRE_TRY(n.query_scalar, config.number_or("query_pre_attn_scalar", 256.0));
  QUIRE_TRY(n.score_cap, cap(json, "attn_logit_softcapping", 50.0));
  QUIRE_TRY(n.logit_cap, cap(json, "final_logit_softcapping", 30.0));
  QUIRE_TRY(const int32_t window, config.int_or("sliding_window", 4096));
  QUIRE_TRY(const auto types, config.window_layers(c.num_layers));
  QUIRE_TRY(c, with_windows(std::move(c), window, [&](int32_t layer) {
              return types ? bool{(*types)[static_cast<size_t>(layer)]} : even(layer);
            }));
  return completed(std::move(c), n);
}

}  // namespace

const Architecture kGemma2 = {
    .name = "gemma2",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
    .hf_norms_omit_one = true,
};

}  // namespace quire::model
