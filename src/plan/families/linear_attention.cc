// Models whose other layers attend linearly or to a fixed state: Qwen3-Next and 3.5, Kimi Linear,
// LFM2's short convolutions, MiniMax, RecurrentGemma. States are kept in f32, the convolutions'
// last inputs in 16 bits.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

constexpr int64_t kMaxKernel = 1024;

std::vector<bool> every(int64_t layers, int64_t period) {
  std::vector<bool> out;
  for (int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % period == 0);
  return out;
}

Result<DeltaNetPart> read_delta_net(ConfigReader& config, int64_t hidden) {
  DeltaNetPart part{.hidden = hidden};
  QUIRE_TRY(part.key_heads, config.get_noted({"linear_num_key_heads"}, kMaxHeads, 16));
  QUIRE_TRY(part.value_heads, config.get_noted({"linear_num_value_heads"}, kMaxHeads, 32));
  QUIRE_TRY(part.key_dim, config.get_noted({"linear_key_head_dim"}, kMaxHeadDim, 128));
  QUIRE_TRY(part.value_dim, config.get_noted({"linear_value_head_dim"}, kMaxHeadDim, 128));
  QUIRE_TRY(part.conv, config.get_noted({"linear_conv_kernel_dim"}, kMaxKernel, 4));
  return part;
}

/// Gated attention in every fourth layer, the gated delta rule in the others.
Result<ModelShape> read_qwen3_next(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {.head_dim = 256, .ffn = 5632}));
  QUIRE_TRY(const DeltaNetPart delta, read_delta_net(config, s.hidden));
  QUIRE_TRY(const int64_t period, config.get({"full_attention_interval"}, kMaxLayers, 4));
  QUIRE_TRY(const auto attends,
            attending_by_types(config, s.layers, {"linear_attention"}, every(s.layers, period)));
  QUIRE_TRY(auto experts, read_experts(config, s));
  if (experts) experts->part.shared_gate = true;
  AttentionPart attention = attention_of(s);
  attention.query_gated = true;
  attention.norm_elements = 2 * s.head_dim;
  ModelShape shape = begin_shape(config, s);
  shape.widths.query = std::max(2 * s.heads * s.head_dim, delta.value_heads * delta.value_dim);
  ShapeBuilder builder(shape);
  for (size_t i = 0; i < attends.size(); ++i) {
    builder.open_layer();
    if (attends[i]) {
      builder.attention(attention);
    } else {
      builder.delta_net(delta);
    }
    builder.small(2 * s.hidden);
    feed_forward(builder, experts, i, {.hidden = s.hidden, .width = s.ffn});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// LFM2 widens its feed-forward by a rule of its own when block_auto_adjust_ff_dim is set.
Result<int64_t> lfm2_ffn(ConfigReader& config, int64_t width) {
  QUIRE_TRY(const bool adjust, config.flag({"block_auto_adjust_ff_dim"}, true));
  if (!adjust) return width;
  QUIRE_TRY(const double factor, config.number({"block_ffn_dim_multiplier"}, 1.0));
  QUIRE_TRY(const int64_t multiple, config.get({"block_multiple_of"}, kMaxWidth, 256));
  const double scaled = factor * static_cast<double>(2 * width / 3);
  if (!(scaled >= 1.0 && scaled <= kMaxWidth)) {
    return config.bad(fmt::format("block_ffn_dim_multiplier {} cannot be", factor));
  }
  const auto adjusted = static_cast<int64_t>(scaled);
  return (adjusted + multiple - 1) / multiple * multiple;
}

Result<std::vector<bool>> lfm2_attends(ConfigReader& config, int64_t layers) {
  QUIRE_TRY(auto listed, attending(config, {"full_attn_idxs"}, layers));
  QUIRE_TRY(auto attends, attending_by_types(config, layers, {"conv"}, listed));
  if (!config.has({"full_attn_idxs", "layer_types"})) {
    return config.bad("neither layer_types nor full_attn_idxs says which layers attend");
  }
  return attends;
}

Result<ModelShape> read_lfm2_model(ConfigReader& config, int64_t ffn_width,
                                   std::optional<ExpertLayers> experts, const Sizes& s) {
  QUIRE_TRY(const auto attends, lfm2_attends(config, s.layers));
  QUIRE_TRY(const int64_t kernel, config.get_noted({"conv_L_cache"}, kMaxKernel, 3));
  QUIRE_TRY(const bool bias, config.flag({"conv_bias"}, false));
  AttentionPart attention = attention_of(s);
  attention.norm_elements = 2 * s.head_dim;
  ModelShape shape = begin_shape(config, s);
  shape.widths.ffn = ffn_width;
  ShapeBuilder builder(shape);
  for (size_t i = 0; i < attends.size(); ++i) {
    builder.open_layer();
    if (attends[i]) {
      builder.attention(attention);
    } else {
      builder.short_convolution(s.hidden, kernel, bias);
    }
    builder.small(2 * s.hidden);
    feed_forward(builder, experts, i, {.hidden = s.hidden, .width = ffn_width});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

Result<ModelShape> read_lfm2(ConfigReader& config) {
  QUIRE_TRY(const int64_t given, config.require({"block_ff_dim", "intermediate_size"}, kMaxWidth));
  QUIRE_TRY(const Sizes s, read_sizes(config, {.ffn = given, .tied = true}));
  QUIRE_TRY(const int64_t width, lfm2_ffn(config, given));
  return read_lfm2_model(config, width, std::nullopt, s);
}

Result<ModelShape> read_lfm2_moe(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {.tied = true}));
  QUIRE_TRY(auto experts, read_experts(config, s));
  if (experts) {
    QUIRE_TRY(experts->part.router_bias, config.flag({"use_expert_bias"}, true));
  }
  return read_lfm2_model(config, s.ffn, std::move(experts), s);
}

/// Which layers of Kimi Linear attend: a list that counts from 1, or every fourth.
Result<std::vector<bool>> kimi_attends(ConfigReader& config,
                                       const std::optional<ConfigReader>& linear, int64_t layers) {
  std::vector<bool> attends = every(layers, 4);
  if (linear) {
    QUIRE_TRY(const auto listed, linear->indices({"full_attn_layers"}, kMaxLayers));
    if (!listed.empty()) std::fill(attends.begin(), attends.end(), false);
    for (const int64_t i : listed) {
      if (i >= 1 && i <= layers) attends[static_cast<size_t>(i - 1)] = true;
    }
  }
  return attending_by_types(config, layers, {"linear_attention"}, attends);
}

Result<ModelShape> read_kimi_linear(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {.latent = true}));
  QUIRE_TRY(const auto linear, config.inner("linear_attn_config"));
  KimiDeltaPart delta{.hidden = s.hidden, .heads = 32, .head_dim = 128, .conv = 4};
  if (linear) {
    QUIRE_TRY(delta.heads, linear->require({"num_heads"}, kMaxHeads));
    QUIRE_TRY(delta.head_dim, linear->require({"head_dim"}, kMaxHeadDim));
    QUIRE_TRY(delta.conv, linear->require({"short_conv_kernel_size"}, kMaxKernel));
  }
  LatentPart latent{.hidden = s.hidden, .heads = s.heads};
  QUIRE_TRY(latent.query_rank, config.get({"q_lora_rank"}, kMaxWidth, 0));
  QUIRE_TRY(latent.kv_rank, config.get_noted({"kv_lora_rank"}, kMaxHeadDim, 512));
  QUIRE_TRY(latent.nope_dim, config.get_noted({"qk_nope_head_dim"}, kMaxHeadDim, 128));
  QUIRE_TRY(latent.rope_dim, config.get_noted({"qk_rope_head_dim"}, kMaxHeadDim, 64));
  QUIRE_TRY(latent.value_dim, config.get_noted({"v_head_dim"}, kMaxHeadDim, 128));
  QUIRE_TRY(const auto attends, kimi_attends(config, linear, s.layers));
  QUIRE_TRY(auto experts, read_experts(config, s));
  ModelShape shape = begin_shape(config, s);
  shape.widths.query = s.heads * (latent.nope_dim + latent.rope_dim);
  shape.widths.key_value = latent.kv_rank + latent.rope_dim;
  shape.widths.head_dim = latent.kv_rank + latent.rope_dim;
  ShapeBuilder builder(shape);
  for (size_t i = 0; i < attends.size(); ++i) {
    builder.open_layer();
    if (attends[i]) {
      builder.latent_attention(latent);
    } else {
      builder.kimi_delta(delta);
    }
    builder.small(2 * s.hidden);
    feed_forward(builder, experts, i, {.hidden = s.hidden, .width = s.ffn});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Lightning attention in seven of eight layers, or as attn_type_list (0 linear, 1 softmax) says.
Result<ModelShape> read_minimax(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  std::vector<bool> attends = every(s.layers, 8);
  if (config.has({"attn_type_list"})) {
    QUIRE_TRY(const auto kinds, config.per_layer({"attn_type_list"}, s.layers, 0, 1));
    for (size_t i = 0; i < kinds.size(); ++i) attends[i] = kinds[i] == 1;
  }
  QUIRE_TRY(attends, attending_by_types(config, s.layers, {"linear_attention"}, attends));
  QUIRE_TRY(const auto experts, read_experts(config, s));
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (size_t i = 0; i < attends.size(); ++i) {
    builder.open_layer();
    if (attends[i]) {
      builder.attention(attention_of(s));
    } else {
      builder.lightning_attention(s.hidden, s.heads, s.head_dim);
    }
    builder.small(2 * s.hidden);
    feed_forward(builder, experts, i, {.hidden = s.hidden, .width = s.ffn});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Two recurrent layers, then one with a window, and again; intermediate_size counts gate and up.
Result<ModelShape> read_recurrent_gemma(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {.kv_heads = 1, .context = 8192, .tied = true}));
  QUIRE_TRY(const int64_t width, config.get({"lru_width"}, kMaxWidth, s.hidden));
  QUIRE_TRY(const int64_t window, config.get_noted({"attention_window_size"}, INT32_MAX, 2048));
  QUIRE_TRY(const int64_t conv, config.get_noted({"conv1d_width"}, kMaxKernel, 4));
  QUIRE_TRY(const auto words, config.words({"block_types"}, 3));
  AttentionPart attention = attention_of(s);
  attention.window = window;
  attention.out_bias = true;
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    const bool attends =
        words.empty() ? i % 3 == 2 : words[static_cast<size_t>(i % 3)] == "attention";
    if (attends) {
      builder.attention(attention);
    } else {
      builder.recurrent_unit(s.hidden, width, s.heads, conv);
    }
    builder.small(2 * s.hidden);
    builder.ffn({.hidden = s.hidden, .width = s.ffn / 2, .bias = true});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

constexpr std::array kFamilies = {
    Family{"kimi_linear", read_kimi_linear},     Family{"lfm2", read_lfm2},
    Family{"lfm2_moe", read_lfm2_moe},           Family{"minimax", read_minimax},
    Family{"qwen3_5_moe_text", read_qwen3_next}, Family{"qwen3_5_text", read_qwen3_next},
    Family{"qwen3_next", read_qwen3_next},       Family{"recurrent_gemma", read_recurrent_gemma},
};

}  // namespace

std::span<const Family> linear_attention_families() {
  return kFamilies;
}

}  // namespace quire::plan
