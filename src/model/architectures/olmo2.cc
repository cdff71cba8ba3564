// olmo2: norms of what a block adds instead of what it reads, and of whole rows of q and k.
// // arXiv:2501.00656
#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kHfTypes = {"olmo2"};

constexpr std::array<TensorName, 11> kLayerTensors = {{
    {kQuery, "attn_q", "self_attn.q_proj", Bias::kIfPresent},
    {kKey, "attn_k", "self_attn.k_proj", Bias::kIfPresent},
    {kValue, "attn_v", "self_attn.v_proj", Bias::kIfPresent},
    {kQueryNorm, "attn_q_norm", "self_attn.q_norm"},
    {kKeyNorm, "attn_k_norm", "self_attn.k_norm"},
    {kAttentionOut, "attn_output", "self_attn.o_proj", Bias::kIfPresent},
    {kPostAttentionNorm, "post_attention_norm", "post_attention_layernorm"},
    {kGate, "ffn_gate", "mlp.gate_proj"},
    {kUp, "ffn_up", "mlp.up_proj"},
    {kDown, "ffn_down", "mlp.down_proj"},
    {kPostFfnNorm, "post_ffw_norm", "post_feedforward_layernorm"},
}};

ModelConfig with_norms(ModelConfig c) {
  c.pre_norms = false;
  c.post_norms = true;
  c.qk_norm = QkNorm::kRows;
  return c;
}

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "olmo2"));
  if (files.gguf()->find("olmo2.attention.sliding_window") != nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "olmo2.attention.sliding_window: Olmo 3, which has windows, is not run"};
  }
  return with_norms(std::move(c));
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  QUIRE_TRY(ModelConfig c, usual_hf(HfConfig(json), "olmo2"));
  return with_norms(std::move(c));
}

}  // namespace

const Architecture kOlmo2 = {
    .name = "olmo2",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
};

}  // namespace quire::model
