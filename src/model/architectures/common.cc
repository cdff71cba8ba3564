#include "model/architectures/common.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::model {

ModelConfig with_unrotated_layers(ModelConfig config) {
  config.attention_scale = usual_attention_scale(config.head_dim);
  config.layers.assign(static_cast<size_t>(std::clamp(config.num_layers, 0, 4096)),
                       {.window_tokens = 0, .rope = kNoRope});
  return config;
}

ModelConfig with_uniform_layers(ModelConfig config, RopeConfig rope) {
  config = with_unrotated_layers(std::move(config));
  for (LayerConfig& layer : config.layers) layer.rope = 0;
  config.ropes = {std::move(rope)};
  return config;
}

Result<ModelConfig> usual_gguf(const formats::ModelFiles& files, std::string_view architecture) {
  const GgufKeys keys(*files.gguf(), architecture);
  QUIRE_TRY(ModelConfig c, keys.common());
  QUIRE_TRY(RopeConfig rope, keys.rope(c.head_dim));
  return with_uniform_layers(std::move(c), std::move(rope));
}

Result<ModelConfig> usual_hf(const HfConfig& config, std::string_view architecture) {
  QUIRE_TRY_VOID(config.expect_text("hidden_act", "silu"));
  QUIRE_TRY(ModelConfig c, config.common());
  c.architecture = architecture;
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", false));
  QUIRE_TRY(RopeConfig rope, config.rope("full_attention", c.head_dim));
  return with_uniform_layers(std::move(c), std::move(rope));
}

Result<ModelConfig> with_qwen_windows(const HfConfig& config, ModelConfig c) {
  QUIRE_TRY(const bool used, config.bool_or("use_sliding_window", false));
  if (!used) return c;
  QUIRE_TRY(const int32_t tokens, config.int_or("sliding_window", 4096));
  QUIRE_TRY(const int32_t first, config.int_or("max_window_layers", 28));
  QUIRE_TRY(const auto types, config.window_layers(c.num_layers));
  return with_windows(std::move(c), tokens, [&](int32_t layer) {
    return types ? bool{(*types)[static_cast<size_t>(layer)]} : layer >= first;
  });
}

void mark_expert_layers(const formats::ModelFiles& files, ModelConfig& config) {
  for (size_t i = 0; i < config.layers.size(); ++i) {
    config.layers[i].experts = files.find(fmt::format("blk.{}.ffn_gate_inp.weight", i)) != nullptr;
  }
}

Result<ModelConfig> with_qwen_experts(const HfConfig& config, ModelConfig c) {
  ExpertConfig& e = c.experts;
  QUIRE_TRY(const int32_t local, config.int_or("num_local_experts", 0));
  QUIRE_TRY(e.count, config.int_or("num_experts", local));
  QUIRE_TRY(e.per_token, config.require_int("num_experts_per_tok"));
  QUIRE_TRY(e.ffn, config.require_int("moe_intermediate_size"));
  QUIRE_TRY(e.renormalise, config.bool_or("norm_topk_prob", false));
  QUIRE_TRY(const auto dense, config.ints("mlp_only_layers"));
  QUIRE_TRY(const int32_t step, config.int_or("decoder_sparse_step", 1));
  if (step < 1) {
    return Error{ErrorCode::kBadFile, fmt::format("config.json: decoder_sparse_step is {}", step)};
  }
  for (int32_t i = 0; i < static_cast<int32_t>(c.layers.size()); ++i) {
    const bool named_dense = dense && std::ranges::count(*dense, i) > 0;
    c.layers[static_cast<size_t>(i)].experts = e.count > 0 && !named_dense && (i + 1) % step == 0;
  }
  return c;
}

}  // namespace quire::model
