// Models with state-space layers, alone or beside attention: Mamba, Jamba, Bamba, Granite 4,
// Nemotron-H, Falcon-H1. States are kept in f32, the convolutions' last inputs in 16 bits.
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

constexpr std::array kFamilies = {
    Family{"bamba", read_bamba},        Family{"falcon_h1", read_falcon_h1},
    Family{"falcon_mamba", read_mamba}, Family{"granitemoehybrid", read_granite_hybrid},
    Family{"jamba", read_jamba},        Family{"mamba", read_mamba},
    Family{"mamba2", read_mamba2},      Family{"nemotron_h", read_nemotron_h},
};

}  // namespace

std::span<const Family> state_space_families() {
  return kFamilies;
}

}  // namespace quire::plan
