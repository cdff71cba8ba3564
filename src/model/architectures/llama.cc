// llama: Llama 2 and 3, SmolLM2, Mistral and their kin: RMSNorm, rotary GQA attention, SwiGLU. GGUF
// files of Mixtral call themselves llama too, and differ by their experts. // arXiv:2401.04088
#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 3> kHfTypes = {"llama", "mistral", "mixtral"};

constexpr std::array<TensorName, 16> kLayerTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQuery, "attn_q", "self_attn.q_proj", Bias::kIfPresent},
    {kKey, "attn_k", "self_attn.k_proj", Bias::kIfPresent},
    {kValue, "attn_v", "self_attn.v_proj", Bias::kIfPresent},
    {kAttentionOut, "attn_output", "self_attn.o_proj", Bias::kIfPresent},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {kGate, "ffn_gate", "mlp.gate_proj", Bias::kIfPresent},
    {kUp, "ffn_up", "mlp.up_proj", Bias::kIfPresent},
    {kDown, "ffn_down", "mlp.down_proj", Bias::kIfPresent},
    {kRouter, "ffn_gate_inp", "block_sparse_moe.gate"},
    {kExpertGate, "ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {kExpertGate, "ffn_gate.{}", "block_sparse_moe.experts.{}.w1"},  // GGUF before 2024-04
    {kExpertUp, "ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {kExpertUp, "ffn_up.{}", "block_sparse_moe.experts.{}.w3"},
    {kExpertDown, "ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
    {kExpertDown, "ffn_down.{}", "block_sparse_moe.experts.{}.w2"},
}};

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "llama"));
  const GgufKeys keys(*files.gguf(), "llama");
  QUIRE_TRY(c.experts, keys.experts(c));
  if (c.experts.count > 0) mark_expert_layers(files, c);
  QUIRE_TRY(const int32_t window, keys.int_or("attention.sliding_window", 0));
  if (window == 0) return c;
  return with_windows(std::move(c), window, [](int32_t) { return true; });
}

Result<ModelConfig> with_mixtral_experts(const HfConfig& config, ModelConfig c) {
  QUIRE_TRY(const int32_t count, config.int_or("num_experts", 8));
  QUIRE_TRY(c.experts.count, config.int_or("num_local_experts", count));
  QUIRE_TRY(c.experts.per_token, config.int_or("num_experts_per_tok", 2));
  c.experts.ffn = c.ffn;
  for (LayerConfig& layer : c.layers) layer.experts = c.experts.count > 0;
  return c;
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, usual_hf(config, "llama"));
  QUIRE_TRY(const std::string type, config.text_or("model_type", "llama"));
  if (type == "mixtral") {
    QUIRE_TRY(c, with_mixtral_experts(config, std::move(c)));
  }
  // Llama has no windows, whatever its config.json says.
  if (type == "llama" || config.find("sliding_window") == nullptr) return c;
  QUIRE_TRY(const int32_t window, config.int_or("sliding_window", 0));
  return with_windows(std::move(c), window, [](int32_t) { return true; });
}

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
    .gguf_permutes_qk = true,
};

}  // namespace quire::model
