// Models whose layers keep a state of fixed size instead of, or beside, keys and values: Mamba,
// Jamba, Bamba, Granite 4, Nemotron-H, Falcon-H1, Qwen3-Next and 3.5, Kimi Linear, LFM2, MiniMax,
// RecurrentGemma. States are kept in f32, the convolutions' last inputs in 16 bits.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

constexpr int64_t kMaxExpand = 64;
constexpr int64_t kMaxState = 1 << 14;
constexpr int64_t kMaxKernel = 1024;

AttentionPart attention_of(const Sizes& s) {
  return {.hidden = s.hidden,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .key_dim = s.head_dim,
          .value_dim = s.head_dim};
}

/// Mamba's rank of dt: a number, or "auto" for a sixteenth of the stream.
Result<int64_t> dt_rank(ConfigReader& config, Keys keys, int64_t hidden) {
  const formats::Json* value = config.find(keys);
  if (value == nullptr || *value == formats::Json("auto")) return (hidden + 15) / 16;
  return config.require(keys, kMaxWidth);
}

/// Keys as Jamba, Bamba, Granite and Falcon-H1 spell them, then Mamba's and Nemotron's own.
Result<Mamba2Part> read_mamba2_part(ConfigReader& config, int64_t hidden) {
  Mamba2Part part{.hidden = hidden};
  QUIRE_TRY(part.heads,
            config.require({"mamba_n_heads", "mamba_num_heads", "num_heads"}, kMaxHeads));
  QUIRE_TRY(const int64_t expand, config.get({"mamba_expand", "expand"}, kMaxExpand, 2));
  QUIRE_TRY(const int64_t inner,
            config.get({"mamba_d_ssm"}, kMaxWidth * kMaxExpand, expand * hidden));
  const formats::Json* head_dim = config.find({"mamba_d_head", "mamba_head_dim"});
  if (head_dim == nullptr || *head_dim == formats::Json("auto")) {
    QUIRE_TRY(part.head_dim, config.get({"head_dim"}, kMaxHeadDim, inner / part.heads));
  } else {
    QUIRE_TRY(part.head_dim, config.require({"mamba_d_head", "mamba_head_dim"}, kMaxHeadDim));
  }
  QUIRE_TRY(part.state,
            config.get_noted({"mamba_d_state", "ssm_state_size", "state_size"}, kMaxState, 128));
  QUIRE_TRY(part.groups, config.get_noted({"mamba_n_groups", "n_groups"}, kMaxHeads, 1));
  QUIRE_TRY(part.conv, config.get_noted({"mamba_d_conv", "conv_kernel"}, kMaxKernel, 4));
  QUIRE_TRY(part.conv_bias, config.flag({"mamba_conv_bias", "use_conv_bias"}, true));
  QUIRE_TRY(part.proj_bias, config.flag({"mamba_proj_bias", "use_bias"}, false));
  return part;
}

Result<ModelShape> read_jamba(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  QUIRE_TRY(const int64_t expand, config.get_noted({"mamba_expand"}, kMaxExpand, 2));
  MambaPart mamba{.hidden = s.hidden, .inner = expand * s.hidden, .inner_norms = true};
  QUIRE_TRY(mamba.state, config.get_noted({"mamba_d_state"}, kMaxState, 16));
  QUIRE_TRY(mamba.conv, config.get_noted({"mamba_d_conv"}, kMaxKernel, 4));
  QUIRE_TRY(mamba.dt_rank, dt_rank(config, {"mamba_dt_rank"}, s.hidden));
  QUIRE_TRY(mamba.conv_bias, config.flag({"mamba_conv_bias"}, true));
  QUIRE_TRY(mamba.proj_bias, config.flag({"mamba_proj_bias"}, false));
  QUIRE_TRY(const int64_t period, config.get_noted({"attn_layer_period"}, kMaxLayers, 8));
  QUIRE_TRY(const int64_t offset, config.get_from_zero({"attn_layer_offset"}, kMaxLayers, 4));
  QUIRE_TRY(const int64_t expert_period, config.get_noted({"expert_layer_period"}, kMaxLayers, 2));
  QUIRE_TRY(const int64_t expert_offset,
            config.get_from_zero({"expert_layer_offset"}, kMaxLayers, 1));
  QUIRE_TRY(const int64_t experts, config.get_noted({"num_experts"}, kMaxExperts, 16));
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    if (i % period == offset) {
      builder.attention(attention_of(s));
    } else {
      builder.mamba(mamba);
    }
    builder.small(2 * s.hidden);
    if (experts > 1 && i % expert_period == expert_offset) {
      builder.experts({.hidden = s.hidden, .experts = experts, .width = s.ffn});
    } else {
      builder.ffn({.hidden = s.hidden, .width = s.ffn});
    }
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Sizes of a model that has neither heads nor a feed-forward.
Result<Sizes> attention_free_sizes(ConfigReader& config, bool tied) {
  Sizes s{.heads = 1, .kv_heads = 1, .head_dim = 1};
  QUIRE_TRY(s.layers, config.require({"num_hidden_layers", "n_layer"}, kMaxLayers));
  QUIRE_TRY(s.hidden, config.require({"hidden_size", "d_model"}, kMaxWidth));
  QUIRE_TRY(s.vocab, config.require({"vocab_size"}, kMaxVocab));
  QUIRE_TRY(s.tied, config.flag_noted({"tie_word_embeddings"}, tied));
  QUIRE_TRY(s.context, config.get({"max_position_embeddings"}, kMaxTokens, 0));
  if (s.context == 0) config.note("max_position_embeddings is missing: no trained length known");
  return s;
}

Result<ModelShape> read_mamba(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, attention_free_sizes(config, true));
  QUIRE_TRY(const int64_t expand, config.get_noted({"expand"}, kMaxExpand, 2));
  MambaPart mamba{.hidden = s.hidden};
  QUIRE_TRY(mamba.inner, config.get({"intermediate_size", "d_inner"}, kMaxWidth * kMaxExpand,
                                    expand * s.hidden));
  QUIRE_TRY(mamba.state, config.get_noted({"state_size"}, kMaxState, 16));
  QUIRE_TRY(mamba.conv, config.get_noted({"conv_kernel"}, kMaxKernel, 4));
  QUIRE_TRY(mamba.dt_rank, dt_rank(config, {"time_step_rank"}, s.hidden));
  QUIRE_TRY(mamba.conv_bias, config.flag({"use_conv_bias"}, true));
  QUIRE_TRY(mamba.proj_bias, config.flag({"use_bias"}, false));
  ModelShape shape = begin_shape(config, s);
  shape.widths = {.hidden = s.hidden, .ffn = mamba.inner};
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    builder.mamba(mamba);
    builder.small(s.hidden);
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

Result<ModelShape> read_mamba2(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, attention_free_sizes(config, false));
  QUIRE_TRY(const Mamba2Part mamba, read_mamba2_part(config, s.hidden));
  ModelShape shape = begin_shape(config, s);
  shape.widths = {.hidden = s.hidden, .ffn = mamba.heads * mamba.head_dim};
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    builder.mamba2(mamba);
    builder.small(s.hidden);
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Which layers attend, by a list of indices.
Result<std::vector<bool>> attending(ConfigReader& config, Keys keys, int64_t layers) {
  QUIRE_TRY(const auto indices, config.indices(keys, kMaxLayers));
  std::vector<bool> out(static_cast<size_t>(layers), false);
  for (const int64_t i : indices) {
    if (i >= layers) {
      return config.bad(fmt::format("{} names layer {} of {}", *keys.begin(), i, layers));
    }
    out[static_cast<size_t>(i)] = true;
  }
  return out;
}

/// The same by layer_types, where `attention_word` marks them; `fallback` if there are none.
Result<std::vector<bool>> attending_by_types(ConfigReader& config, int64_t layers,
                                             std::initializer_list<std::string_view> other_words,
                                             std::vector<bool> fallback) {
  QUIRE_TRY(const auto types, config.words({"layer_types", "layers_block_type"}, layers));
  for (size_t i = 0; i < types.size(); ++i) {
    const bool attends = types[i] == "attention" || types[i] == "full_attention";
    if (!attends && std::ranges::find(other_words, types[i]) == other_words.end()) {
      return config.unsupported(fmt::format("layer_types has '{}', which {} is not known for",
                                            types[i], config.family()));
    }
    fallback[i] = attends;
  }
  return fallback;
}

std::vector<bool> every(int64_t layers, int64_t period) {
  std::vector<bool> out;
  for (int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % period == 0);
  return out;
}

Result<ModelShape> read_bamba(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  QUIRE_TRY(const Mamba2Part mamba, read_mamba2_part(config, s.hidden));
  QUIRE_TRY(auto listed, attending(config, {"attn_layer_indices"}, s.layers));
  QUIRE_TRY(const auto attends, attending_by_types(config, s.layers, {"mamba"}, listed));
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (const bool attention : attends) {
    builder.open_layer();
    if (attention) {
      builder.attention(attention_of(s));
    } else {
      builder.mamba2(mamba);
    }
    builder.small(2 * s.hidden);
    builder.ffn({.hidden = s.hidden, .width = s.ffn});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Every layer has a shared feed-forward, and experts beside it in the larger models.
Result<ModelShape> read_granite_hybrid(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  QUIRE_TRY(const auto attends,
            attending_by_types(config, s.layers, {"mamba"},
                               std::vector<bool>(static_cast<size_t>(s.layers), false)));
  const bool any_mamba = std::ranges::count(attends, false) > 0;
  Mamba2Part mamba;
  if (any_mamba) {
    QUIRE_TRY(mamba, read_mamba2_part(config, s.hidden));
  }
  QUIRE_TRY(const int64_t experts, config.get_from_zero({"num_local_experts"}, kMaxExperts, 0));
  QUIRE_TRY(const int64_t shared, config.require({"shared_intermediate_size"}, kMaxWidth));
  AttentionPart attention = attention_of(s);
  QUIRE_TRY(attention.query_bias, config.flag({"attention_bias"}, false));
  attention.out_bias = attention.query_bias;
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (const bool attend : attends) {
    builder.open_layer();
    if (attend) {
      builder.attention(attention);
    } else {
      builder.mamba2(mamba);
    }
    builder.small(2 * s.hidden);
    if (experts > 0) {
      builder.experts(
          {.hidden = s.hidden, .experts = experts, .width = s.ffn, .shared_width = shared});
    } else {
      builder.ffn({.hidden = s.hidden, .width = shared});
    }
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Attention and Mamba-2 side by side in every layer.
Result<ModelShape> read_falcon_h1(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  QUIRE_TRY(Mamba2Part mamba, read_mamba2_part(config, s.hidden));
  QUIRE_TRY(mamba.gated_norm, config.flag({"mamba_rms_norm"}, false));
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    builder.attention(attention_of(s));
    builder.mamba2(mamba);
    builder.small(2 * s.hidden);
    builder.ffn({.hidden = s.hidden, .width = s.ffn});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// One part a layer, by a letter: M mamba, * attention, - feed-forward, E experts.
Result<std::string> nemotron_pattern(ConfigReader& config, int64_t layers) {
  QUIRE_TRY(const auto words, config.words({"layers_block_type"}, layers));
  if (words.empty()) {
    QUIRE_TRY(std::string pattern, config.text({"hybrid_override_pattern"}, ""));
    if (static_cast<int64_t>(pattern.size()) != layers) {
      return config.bad(fmt::format("hybrid_override_pattern has {} letters for {} layers",
                                    pattern.size(), layers));
    }
    return pattern;
  }
  std::string pattern;
  for (const std::string& word : words) {
    pattern += word == "mamba" ? 'M' : word == "attention" ? '*' : word == "mlp" ? '-' : 'E';
  }
  return pattern;
}

Result<ModelShape> read_nemotron_h(ConfigReader& config) {
  QUIRE_TRY(Sizes s, read_sizes(config, {.head_dim = 128}));
  QUIRE_TRY(s.head_dim, config.get({"attention_head_dim", "head_dim"}, kMaxHeadDim, 128));
  QUIRE_TRY(const std::string pattern, nemotron_pattern(config, s.layers));
  QUIRE_TRY(const Mamba2Part mamba, read_mamba2_part(config, s.hidden));
  QUIRE_TRY(auto experts, read_experts(config, s));
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (const char letter : pattern) {
    builder.open_layer();
    builder.small(s.hidden);
    if (letter == 'M') {
      builder.mamba2(mamba);
    } else if (letter == '*') {
      builder.attention(attention_of(s));
    } else if (letter == '-') {
      builder.ffn({.hidden = s.hidden, .width = s.ffn, .gated = false});
    } else if (letter == 'E' && experts) {
      experts->part.gated = false;
      builder.experts(experts->part);
    } else {
      return config.bad(fmt::format("hybrid_override_pattern has the letter '{}'", letter));
    }
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
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
    if (experts && experts->sparse[i]) {
      builder.experts(experts->part);
    } else {
      builder.ffn({.hidden = s.hidden, .width = s.ffn});
    }
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
    if (experts && experts->sparse[i]) {
      builder.experts(experts->part);
    } else {
      builder.ffn({.hidden = s.hidden, .width = ffn_width});
    }
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
    if (experts && experts->sparse[i]) {
      builder.experts(experts->part);
    } else {
      builder.ffn({.hidden = s.hidden, .width = s.ffn});
    }
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
    if (experts) {
      builder.experts(experts->part);
    } else {
      builder.ffn({.hidden = s.hidden, .width = s.ffn});
    }
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
    Family{"bamba", read_bamba},
    Family{"falcon_h1", read_falcon_h1},
    Family{"falcon_mamba", read_mamba},
    Family{"granitemoehybrid", read_granite_hybrid},
    Family{"jamba", read_jamba},
    Family{"kimi_linear", read_kimi_linear},
    Family{"lfm2", read_lfm2},
    Family{"lfm2_moe", read_lfm2_moe},
    Family{"mamba", read_mamba},
    Family{"mamba2", read_mamba2},
    Family{"minimax", read_minimax},
    Family{"nemotron_h", read_nemotron_h},
    Family{"qwen3_5_moe_text", read_qwen3_next},
    Family{"qwen3_5_text", read_qwen3_next},
    Family{"qwen3_next", read_qwen3_next},
    Family{"recurrent_gemma", read_recurrent_gemma},
};

}  // namespace

std::span<const Family> hybrid_families() {
  return kFamilies;
}

}  // namespace quire::plan
