// Gemma 1 to 4: wide heads, alternating windows, scaled embeddings; 3n and 4 share keys and values
// among their last layers and embed tokens anew in each. Facts: the models' published
// configurations and the modelling files of Hugging Face transformers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

/// Gemma 1, 2 and 3 in one: norms a layer, norms of q and k, a pattern of windows.
struct GemmaTraits {
  SizeDefaults sizes = {};
  WindowTraits windows = {};
  int64_t norms = 2;
  bool qk_norm = false;
  int64_t num_ropes = 1;
};

Result<ModelShape> read_plain(ConfigReader& config, const GemmaTraits& traits) {
  QUIRE_TRY(const Sizes s, read_sizes(config, traits.sizes));
  QUIRE_TRY(const auto windows, read_windows(config, s, traits.windows));
  AttentionPart attention = attention_of(s);
  if (traits.qk_norm) attention.norm_elements = 2 * s.head_dim;
  QUIRE_TRY(attention.query_bias, config.flag({"attention_bias"}, false));
  attention.out_bias = attention.query_bias;
  ModelShape shape = begin_shape(config, s);
  shape.widths.num_ropes = traits.num_ropes;
  ShapeBuilder builder(shape);
  for (const int64_t window : windows) {
    builder.open_layer();
    attention.window = window;
    builder.attention(attention);
    builder.ffn({.hidden = s.hidden, .width = s.ffn});
    builder.small(traits.norms * s.hidden);
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

Result<ModelShape> read_gemma(ConfigReader& config) {
  return read_plain(config, {.sizes = {.heads = 16,
                                       .kv_heads = 16,
                                       .head_dim = 256,
                                       .vocab = 256000,
                                       .context = 8192,
                                       .tied = true}});
}

Result<ModelShape> read_gemma2(ConfigReader& config) {
  return read_plain(
      config, {.sizes = {.heads = 8,
                         .kv_heads = 4,
                         .head_dim = 256,
                         .vocab = 256000,
                         .context = 8192,
                         .tied = true},
               .windows = {.rule = WindowRule::kPattern, .pattern = 2, .default_window = 4096},
               .norms = 4});
}

Result<ModelShape> read_gemma3(ConfigReader& config) {
  return read_plain(
      config, {.sizes = {.heads = 8,
                         .kv_heads = 4,
                         .head_dim = 256,
                         .vocab = 262208,
                         .context = 131072,
                         .tied = true},
               .windows = {.rule = WindowRule::kPattern, .pattern = 6, .default_window = 4096},
               .norms = 4,
               .qk_norm = true,
               .num_ropes = 2});
}

/// Each token has a further embedding for every layer: one table, gates and projections.
struct LayerEmbeddings {
  int64_t width = 0;
  int64_t vocab = 0;
};

Result<LayerEmbeddings> read_layer_embeddings(ConfigReader& config) {
  LayerEmbeddings out;
  QUIRE_TRY(out.width, config.get_from_zero({"hidden_size_per_layer_input"}, kMaxWidth, 256));
  if (out.width == 0) return out;
  QUIRE_TRY(out.vocab, config.get_noted({"vocab_size_per_layer_input"}, kMaxVocab, 262144));
  return out;
}

void add_layer_embedding(ShapeBuilder& builder, const Sizes& s, const LayerEmbeddings& e) {
  if (e.width == 0) return;
  builder.matrix(WeightRole::kOtherMatrix, e.width, s.hidden, 2);
  builder.small(s.hidden);
}

void add_embedding_tables(ShapeBuilder& builder, const Sizes& s, const LayerEmbeddings& e) {
  if (e.width == 0) return;
  builder.outside_layers();
  builder.matrix(WeightRole::kEmbedding, e.vocab, s.layers * e.width);
  builder.matrix(WeightRole::kOtherMatrix, s.layers * e.width, s.hidden);
  builder.small(e.width);
}

/// The last layers read the keys and values of the last layer of their kind before them.
Result<int64_t> first_sharing_layer(ConfigReader& config, const Sizes& s, int64_t fallback) {
  QUIRE_TRY(const int64_t sharing,
            config.get_from_zero({"num_kv_shared_layers"}, kMaxLayers, fallback));
  if (sharing >= s.layers) {
    return config.bad(fmt::format("num_kv_shared_layers {} leaves none of {} layers to read from",
                                  sharing, s.layers));
  }
  return s.layers - sharing;
}

/// AltUp's and LAuReL's small matrices of one layer. // Gemma 3n model card
void add_3n_extras(ShapeBuilder& builder, int64_t hidden, int64_t streams, int64_t rank) {
  builder.matrix(WeightRole::kOtherMatrix, rank, hidden, 2);
  builder.small(hidden);  // norm after LAuReL
  builder.small(2 * hidden + streams * streams * (streams + 1) + streams * hidden);
}

Result<ModelShape> read_gemma3n(ConfigReader& config) {
  // Widths of the feed-forward are given one a layer, and all alike.
  QUIRE_TRY(const int64_t layers, config.require({"num_hidden_layers"}, kMaxLayers));
  QUIRE_TRY(const auto ffn, config.per_layer({"intermediate_size"}, layers, 1, kMaxWidth));
  SizeDefaults defaults{.heads = 8,
                        .kv_heads = 2,
                        .head_dim = 256,
                        .ffn = ffn.front(),
                        .vocab = 262400,
                        .context = 32768,
                        .tied = true};
  defaults.ffn_is_read = true;
  QUIRE_TRY(const Sizes s, read_sizes(config, defaults));
  QUIRE_TRY(
      const auto windows,
      read_windows(config, s, {.rule = WindowRule::kPattern, .pattern = 5, .default_window = 512}));
  QUIRE_TRY(const int64_t first_sharing, first_sharing_layer(config, s, 15));
  QUIRE_TRY(const LayerEmbeddings embeddings, read_layer_embeddings(config));
  QUIRE_TRY(const int64_t streams, config.get_noted({"altup_num_inputs"}, 64, 4));
  QUIRE_TRY(const int64_t rank, config.get_noted({"laurel_rank"}, kMaxWidth, 64));
  AttentionPart attention = attention_of(s);
  ModelShape shape = begin_shape(config, s);
  shape.widths.num_ropes = 2;
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    attention.window = windows[static_cast<size_t>(i)];
    attention.shares_kv = i >= first_sharing;
    attention.norm_elements = attention.shares_kv ? s.head_dim : 2 * s.head_dim;
    builder.attention(attention);
    builder.ffn({.hidden = s.hidden, .width = ffn[static_cast<size_t>(i)]});
    builder.small(4 * s.hidden);
    add_3n_extras(builder, s.hidden, streams, rank);
    add_layer_embedding(builder, s, embeddings);
  }
  add_embedding_tables(builder, s, embeddings);
  builder.outside_layers();
  builder.matrix(WeightRole::kOtherMatrix, s.hidden, s.hidden, 2 * (streams - 1));
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

/// Gemma 4's global layers have heads of their own size, and may use keys as values.
struct GlobalHeads {
  int64_t head_dim = 0;
  int64_t kv_heads = 0;
  bool value_is_key = false;
};

Result<GlobalHeads> read_global_heads(ConfigReader& config, const Sizes& s) {
  GlobalHeads heads{.kv_heads = s.kv_heads};
  QUIRE_TRY(heads.head_dim, config.get_noted({"global_head_dim"}, kMaxHeadDim, 512));
  QUIRE_TRY(heads.value_is_key, config.flag({"attention_k_eq_v"}, false));
  if (heads.value_is_key) {
    QUIRE_TRY(heads.kv_heads, config.get({"num_global_key_value_heads"}, kMaxHeads, s.kv_heads));
    QUIRE_TRY_VOID(check_heads(config, s.heads, heads.kv_heads));
  }
  return heads;
}

Result<ModelShape> read_gemma4(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {.heads = 8,
                                               .kv_heads = 4,
                                               .head_dim = 256,
                                               .vocab = 262144,
                                               .context = 131072,
                                               .tied = true}));
  QUIRE_TRY(
      auto windows,
      read_windows(config, s, {.rule = WindowRule::kPattern, .pattern = 6, .default_window = 512}));
  windows.back() = 0;  // the last layer is global in every one
  QUIRE_TRY(const GlobalHeads global, read_global_heads(config, s));
  QUIRE_TRY(const int64_t first_sharing, first_sharing_layer(config, s, 0));
  QUIRE_TRY(const bool double_wide, config.flag({"use_double_wide_mlp"}, false));
  QUIRE_TRY(const LayerEmbeddings embeddings, read_layer_embeddings(config));
  QUIRE_TRY(const bool mixed, config.flag({"enable_moe_block"}, false));
  std::optional<ExpertLayers> experts;
  if (mixed) {
    QUIRE_TRY(experts, read_experts(config, s));
  }
  ModelShape shape = begin_shape(config, s);
  shape.widths.num_ropes = 2;
  shape.widths.query = s.heads * std::max(s.head_dim, global.head_dim);
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    AttentionPart attention = attention_of(s);
    attention.window = windows[static_cast<size_t>(i)];
    attention.shares_kv = i >= first_sharing;
    if (attention.window == 0) {
      attention.key_dim = attention.value_dim = global.head_dim;
      attention.kv_heads = global.kv_heads;
      attention.value_is_key = global.value_is_key;
    }
    attention.norm_elements = (attention.shares_kv ? 1 : 2) * attention.key_dim;
    builder.attention(attention);
    const bool wide = double_wide && attention.shares_kv;
    builder.ffn({.hidden = s.hidden, .width = wide ? 2 * s.ffn : s.ffn});
    builder.small(4 * s.hidden);
    if (experts) {
      builder.experts(experts->part);
      builder.small(4 * s.hidden + experts->part.experts);
    }
    add_layer_embedding(builder, s, embeddings);
  }
  add_embedding_tables(builder, s, embeddings);
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  return shape;
}

constexpr std::array kFamilies = {
    Family{"gemma", read_gemma},          Family{"gemma2", read_gemma2},
    Family{"gemma3", read_gemma3},        Family{"gemma3_text", read_gemma3},
    Family{"gemma3n_text", read_gemma3n}, Family{"gemma4_text", read_gemma4},
};

}  // namespace

std::span<const Family> gemma_families() {
  return kFamilies;
}

}  // namespace quire::plan
