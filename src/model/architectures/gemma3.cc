// gemma3: text models of Google's Gemma 3: windows in five layers of six, two RoPE bases, norms of
// q and k and of what each block adds, scaled embeddings, GeGLU. // arXiv:2503.19786
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/checked_math.h"
#include "model/architectures/descriptions.h"
#include "model/gguf_keys.h"
#include "model/hf_config.h"

namespace quire::model {
namespace {

using enum TensorRole;
using formats::Json;

constexpr std::array<std::string_view, 2> kHfTypes = {"gemma3_text", "gemma3"};

constexpr std::array<TensorName, 13> kLayerTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQuery, "attn_q", "self_attn.q_proj"},
    {kKey, "attn_k", "self_attn.k_proj"},
    {kValue, "attn_v", "self_attn.v_proj"},
    {kQueryNorm, "attn_q_norm", "self_attn.q_norm"},
    {kKeyNorm, "attn_k_norm", "self_attn.k_norm"},
    {kAttentionOut, "attn_output", "self_attn.o_proj"},
    {kPostAttentionNorm, "post_attention_norm", "post_attention_layernorm"},
    {kFfnNorm, "ffn_norm", "pre_feedforward_layernorm"},
    {kGate, "ffn_gate", "mlp.gate_proj"},
    {kUp, "ffn_up", "mlp.up_proj"},
    {kDown, "ffn_down", "mlp.down_proj"},
    {kPostFfnNorm, "post_ffw_norm", "post_feedforward_layernorm"},
}};

constexpr int32_t kGlobalRope = 0;
constexpr int32_t kWindowRope = 1;
constexpr double kWindowTheta = 10000.0;
constexpr int32_t kPattern = 6;  // every sixth layer is global

/// What all Gemma 3 models share, once sizes and rotations are known.
ModelConfig completed(ModelConfig c, RopeConfig global, RopeConfig window) {
  c.architecture = "gemma3";
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  c.activation = FfnActivation::kGeGluTanh;
  c.qk_norm = QkNorm::kHeads;
  c.post_norms = true;
  c.ropes = {std::move(global), std::move(window)};
  return c;
}

LayerConfig window_layer(int32_t tokens) {
  return {.window_tokens = tokens, .rope = kWindowRope};
}
LayerConfig global_layer() {
  return {.window_tokens = 0, .rope = kGlobalRope};
}

Result<std::vector<LayerConfig>> patterned_layers(int32_t count, int32_t window, int32_t pattern) {
  if (pattern < 1 || window < 1) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("a sliding window of {} tokens in {} of {} layers "
                             "cannot be",
                             window, pattern - 1, pattern)};
  }
  std::vector<LayerConfig> layers;
  for (int32_t i = 0; i < count; ++i) {
    layers.push_back((i + 1) % pattern == 0 ? global_layer() : window_layer(window));
  }
  return layers;
}

/// GGUF does not store query_pre_attn_scalar: it is the head dimension, but hidden / heads in the
/// 27B.
double gguf_query_scalar(const ModelConfig& c) {
  constexpr int32_t kLayersOf27b = 62;
  return c.num_layers == kLayersOf27b ? static_cast<double>(c.hidden) / c.num_heads : c.head_dim;
}

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  const GgufKeys keys(*files.gguf(), "gemma3");
  QUIRE_TRY(ModelConfig c, keys.common());
  QUIRE_TRY(RopeConfig global, keys.rope(c.head_dim));
  if (files.gguf()->find("gemma3.rope.freq_base") == nullptr) global.theta = 1e6;
  RopeConfig window;
  window.dims = global.dims;
  QUIRE_TRY(window.theta, keys.number_or("rope.freq_base_swa", kWindowTheta));
  QUIRE_TRY(const int32_t tokens, keys.require_int("attention.sliding_window"));
  QUIRE_TRY(const int32_t pattern, keys.int_or("attention.sliding_window_pattern", kPattern));
  QUIRE_TRY(c.layers, patterned_layers(c.num_layers, tokens, pattern));
  c.attention_scale = static_cast<float>(1.0 / std::sqrt(gguf_query_scalar(c)));
  return completed(std::move(c), std::move(global), std::move(window));
}

/// layer_types wins over a pattern, which older files give instead.
Result<std::vector<LayerConfig>> hf_layers(const HfConfig& config, int32_t count) {
  QUIRE_TRY(const int32_t window, config.int_or("sliding_window", 4096));
  QUIRE_TRY(const auto types, config.window_layers(count));
  if (!types) {
    QUIRE_TRY(const int32_t old_pattern, config.int_or("_sliding_window_pattern", kPattern));
    QUIRE_TRY(const int32_t pattern, config.int_or("sliding_window_pattern", old_pattern));
    return patterned_layers(count, window, pattern);
  }
  std::vector<LayerConfig> layers;
  for (const bool slides : *types) layers.push_back(slides ? window_layer(window) : global_layer());
  return layers;
}

Result<ModelConfig> from_hf(const Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_text("hidden_activation", "gelu_pytorch_tanh"));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.find(key) == nullptr) continue;
    return Error{ErrorCode::kUnsupported,
                 fmt::format("config.json: {} is not run for gemma3", key)};
  }
  QUIRE_TRY(ModelConfig c, config.common());
  QUIRE_TRY(c.head_dim, config.int_or("head_dim", 256));
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", true));
  QUIRE_TRY(c.layers, hf_layers(config, c.num_layers));
  QUIRE_TRY(const double scalar, config.number_or("query_pre_attn_scalar", 256.0));
  c.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  QUIRE_TRY(RopeConfig global, config.rope("full_attention", c.head_dim));
  if (config.find("rope_parameters") != nullptr) {
    QUIRE_TRY(RopeConfig window, config.rope("sliding_attention", c.head_dim));
    return completed(std::move(c), std::move(global), std::move(window));
  }
  // Older files: scaling is for global layers only, window layers have a base of their own.
  if (config.find("rope_theta") == nullptr) global.theta = 1e6;
  RopeConfig window;
  window.dims = c.head_dim;
  QUIRE_TRY(window.theta, config.number_or("rope_local_base_freq", kWindowTheta));
  return completed(std::move(c), std::move(global), std::move(window));
}

}  // namespace

const Architecture kGemma3 = {
    .name = "gemma3",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
    .hf_norms_omit_one = true,
};

}  // namespace quire::model
