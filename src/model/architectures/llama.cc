// llama: Llama 2 and 3, SmolLM2 and their kin: RMSNorm, rotary GQA attention, SwiGLU.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/architectures/descriptions.h"
#include "model/gguf_keys.h"
#include "model/hf_config.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kHfTypes = {"llama"};

constexpr std::array<TensorName, 9> kLayerTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQuery, "attn_q", "self_attn.q_proj"},
    {kKey, "attn_k", "self_attn.k_proj"},
    {kValue, "attn_v", "self_attn.v_proj"},
    {kAttentionOut, "attn_output", "self_attn.o_proj"},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {kGate, "ffn_gate", "mlp.gate_proj"},
    {kUp, "ffn_up", "mlp.up_proj"},
    {kDown, "ffn_down", "mlp.down_proj"},
}};

ModelConfig with_layers(ModelConfig c, RopeConfig rope) {
  c.architecture = "llama";
  c.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  c.ropes = {std::move(rope)};
  c.layers.assign(static_cast<size_t>(std::max(c.num_layers, 0)), LayerConfig{});
  return c;
}

Result<ModelConfig> from_gguf(const formats::GgufMetadata& metadata) {
  const GgufKeys keys(metadata, "llama");
  QUIRE_TRY(ModelConfig c, keys.common());
  QUIRE_TRY(RopeConfig rope, keys.rope(c.head_dim));
  return with_layers(std::move(c), std::move(rope));
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, config.common());
  QUIRE_TRY(const std::string act, config.text_or("hidden_act", "silu"));
  if (act != "silu") {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("config.json: hidden_act '{}' is not run for llama; known: silu", act)};
  }
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", false));
  QUIRE_TRY(RopeConfig rope, config.rope("full_attention", c.head_dim));
  return with_layers(std::move(c), std::move(rope));
}

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
    .gguf_permutes_qk = true,
    .hf_norms_omit_one = false,
};

}  // namespace quire::model
