// phi3: llama with fused projections, a window in every layer, and LongRoPE in its long versions.
// // arXiv:2404.14219
#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kHfTypes = {"phi3"};

constexpr std::array<TensorName, 6> kLayerTensors = {{
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQueryKeyValue, "attn_qkv", "self_attn.qkv_proj"},
    {kAttentionOut, "attn_output", "self_attn.o_proj"},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {kGateUp, "ffn_up", "mlp.gate_up_proj"},
    {kDown, "ffn_down", "mlp.down_proj"},
}};

bool all_layers(int32_t) {
  return true;
}

/// A window of 0 tokens stands for none.
Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "phi3"));
  const GgufKeys keys(*files.gguf(), "phi3");
  QUIRE_TRY(const int32_t window, keys.int_or("attention.sliding_window", 0));
  if (window == 0) return c;
  return with_windows(std::move(c), window, all_layers);
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, usual_hf(config, "phi3"));
  if (config.find("sliding_window") == nullptr) return c;
  QUIRE_TRY(const int32_t window, config.require_int("sliding_window"));
  return with_windows(std::move(c), window, all_layers);
}

}  // namespace

const Architecture kPhi3 = {
    .name = "phi3",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLayerTensors,
};

}  // namespace quire::model
