// common.h: what most descriptions of this folder share.
//
// Pure functions.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "model/architecture.h"
#include "model/gguf_keys.h"
#include "model/hf_config.h"

namespace quire::model {

/// A llama layer, with biases where the file has them.
inline constexpr std::array<TensorName, 9> kLlamaTensors = {{
    {TensorRole::kAttentionNorm, "attn_norm", "input_layernorm"},
    {TensorRole::kQuery, "attn_q", "self_attn.q_proj", Bias::kIfPresent},
    {TensorRole::kKey, "attn_k", "self_attn.k_proj", Bias::kIfPresent},
    {TensorRole::kValue, "attn_v", "self_attn.v_proj", Bias::kIfPresent},
    {TensorRole::kAttentionOut, "attn_output", "self_attn.o_proj", Bias::kIfPresent},
    {TensorRole::kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {TensorRole::kGate, "ffn_gate", "mlp.gate_proj", Bias::kIfPresent},
    {TensorRole::kUp, "ffn_up", "mlp.up_proj", Bias::kIfPresent},
    {TensorRole::kDown, "ffn_down", "mlp.down_proj", Bias::kIfPresent},
}};

/// The usual model: one rotation, every layer global, attention scaled by 1 / sqrt(head_dim).
ModelConfig with_uniform_layers(ModelConfig config, RopeConfig rope);
/// The same without any rotation.
ModelConfig with_unrotated_layers(ModelConfig config);

/// Gives layer i a window of `tokens` where `slides(i)`; a window as long as the context is none.
template <class Slides>
Result<ModelConfig> with_windows(ModelConfig config, int32_t tokens, Slides&& slides) {
  if (tokens < 1) {
    return Error{ErrorCode::kBadFile,
                 "the model's sliding window is " + std::to_string(tokens) + " tokens"};
  }
  for (int32_t i = 0; i < static_cast<int32_t>(config.layers.size()); ++i) {
    const bool has_window = slides(i) && tokens < config.context;
    config.layers[static_cast<size_t>(i)].window_tokens = has_window ? tokens : 0;
  }
  return config;
}

/// What a llama-like file says of the model, every layer alike.
Result<ModelConfig> usual_gguf(const formats::ModelFiles& files, std::string_view architecture);
/// `architecture` is GGUF's name. Requires silu where the file names an activation.
Result<ModelConfig> usual_hf(const HfConfig& config, std::string_view architecture);

/// use_sliding_window, sliding_window, max_window_layers and layer_types of the Qwen models.
Result<ModelConfig> with_qwen_windows(const HfConfig& config, ModelConfig c);

/// Marks the layers of a GGUF file that have a router.
void mark_expert_layers(const formats::ModelFiles& files, ModelConfig& config);
/// Experts as Qwen's config.json gives them: mlp_only_layers and decoder_sparse_step name the
/// dense layers.
Result<ModelConfig> with_qwen_experts(const HfConfig& config, ModelConfig c);

}  // namespace quire::model
