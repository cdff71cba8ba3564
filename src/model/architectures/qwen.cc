// qwen2, qwen3 and their mixtures of experts: llama with biases of q, k and v (qwen2) or norms of
// each head of q and k (qwen3). // arXiv:2407.10671, arXiv:2505.09388
#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kQwen2Types = {"qwen2"};
constexpr std::array<std::string_view, 1> kQwen3Types = {"qwen3"};
constexpr std::array<std::string_view, 1> kQwen2MoeTypes = {"qwen2_moe"};
constexpr std::array<std::string_view, 1> kQwen3MoeTypes = {"qwen3_moe"};

// One list for all four: ModelConfig and the kind of a layer say which of them it has.
template <Bias kQkvBias>
constexpr std::array<TensorName, 19> kTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQuery, "attn_q", "self_attn.q_proj", kQkvBias},
    {kKey, "attn_k", "self_attn.k_proj", kQkvBias},
    {kValue, "attn_v", "self_attn.v_proj", kQkvBias},
    {kQueryNorm, "attn_q_norm", "self_attn.q_norm"},
    {kKeyNorm, "attn_k_norm", "self_attn.k_norm"},
    {kAttentionOut, "attn_output", "self_attn.o_proj", Bias::kIfPresent},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {kGate, "ffn_gate", "mlp.gate_proj"},
    {kUp, "ffn_up", "mlp.up_proj"},
    {kDown, "ffn_down", "mlp.down_proj"},
    {kRouter, "ffn_gate_inp", "mlp.gate"},
    {kExpertGate, "ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {kExpertUp, "ffn_up_exps", "mlp.experts.{}.up_proj"},
    {kExpertDown, "ffn_down_exps", "mlp.experts.{}.down_proj"},
    {kSharedGate, "ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {kSharedUp, "ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {kSharedDown, "ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {kSharedSwitch, "ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
}};

Result<ModelConfig> qwen2_from_gguf(const formats::ModelFiles& files) {
  return usual_gguf(files, "qwen2");
}

Result<ModelConfig> qwen2_from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, usual_hf(config, "qwen2"));
  return with_qwen_windows(config, std::move(c));
}

ModelConfig with_head_norms(ModelConfig c) {
  c.qk_norm = QkNorm::kHeads;
  return c;
}

Result<ModelConfig> qwen3_from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "qwen3"));
  return with_head_norms(std::move(c));
}

/// Qwen3's heads have 128 dimensions unless the file says otherwise, whatever hidden / heads is.
Result<ModelConfig> qwen3_usual(const HfConfig& config, std::string_view architecture) {
  constexpr int32_t kHeadDim = 128;
  QUIRE_TRY(ModelConfig c, usual_hf(config, architecture));
  QUIRE_TRY(c.head_dim, config.int_or("head_dim", kHeadDim));
  c.attention_scale = usual_attention_scale(c.head_dim);
  QUIRE_TRY(c.ropes.front(), config.rope("full_attention", c.head_dim));
  return with_head_norms(std::move(c));
}

Result<ModelConfig> qwen3_from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, qwen3_usual(config, "qwen3"));
  return with_qwen_windows(config, std::move(c));
}

/// GGUF has a key for renormalising that its converter does not write: the models' own habit, then.
Result<ModelConfig> moe_from_gguf(const formats::ModelFiles& files, std::string_view architecture,
                                  bool renormalise) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, architecture));
  const GgufKeys keys(*files.gguf(), architecture);
  QUIRE_TRY(c.experts, keys.experts(c));
  QUIRE_TRY(const auto said,
            files.gguf()->get<bool>(std::string(architecture) + ".expert_weights_norm"));
  c.experts.renormalise = said.value_or(renormalise);
  mark_expert_layers(files, c);
  return c;
}

Result<ModelConfig> qwen2moe_from_gguf(const formats::ModelFiles& files) {
  return moe_from_gguf(files, "qwen2moe", false);
}

Result<ModelConfig> qwen3moe_from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, moe_from_gguf(files, "qwen3moe", true));
  return with_head_norms(std::move(c));
}

Result<ModelConfig> qwen2moe_from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_flag("qkv_bias", true));
  QUIRE_TRY(ModelConfig c, usual_hf(config, "qwen2moe"));
  QUIRE_TRY(c, with_qwen_experts(config, std::move(c)));
  QUIRE_TRY(c.experts.shared_ffn, config.int_or("shared_expert_intermediate_size", 5632));
  return with_qwen_windows(config, std::move(c));
}

Result<ModelConfig> qwen3moe_from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_flag("use_sliding_window", false));
  QUIRE_TRY(ModelConfig c, qwen3_usual(config, "qwen3moe"));
  return with_qwen_experts(config, std::move(c));
}

}  // namespace

const Architecture kQwen2 = {.name = "qwen2",
                             .hf_types = kQwen2Types,
                             .from_gguf = qwen2_from_gguf,
                             .from_hf = qwen2_from_hf,
                             .layer_tensors = kTensors<Bias::kAlways>};

const Architecture kQwen3 = {.name = "qwen3",
                             .hf_types = kQwen3Types,
                             .from_gguf = qwen3_from_gguf,
                             .from_hf = qwen3_from_hf,
                             .layer_tensors = kTensors<Bias::kIfPresent>};

const Architecture kQwen2Moe = {.name = "qwen2moe",
                                .hf_types = kQwen2MoeTypes,
                                .from_gguf = qwen2moe_from_gguf,
                                .from_hf = qwen2moe_from_hf,
                                .layer_tensors = kTensors<Bias::kAlways>};

const Architecture kQwen3Moe = {.name = "qwen3moe",
                                .hf_types = kQwen3MoeTypes,
                                .from_gguf = qwen3moe_from_gguf,
                                .from_hf = qwen3moe_from_hf,
                                .layer_tensors = kTensors<Bias::kIfPresent>};

}  // namespace quire::model
