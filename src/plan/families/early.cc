// GPT-2 and its age: learned or linear positions, biases everywhere, keys of their own. Facts: the
// modelling files of Hugging Face transformers.
#include <array>

#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

/// What an early decoder is made of, beyond sizes.
struct Early {
  int64_t positions = 0;     // rows of learned positions
  int64_t norm_vectors = 2;  // a norm's vectors of hidden
  int64_t norms = 2;         // a layer
  bool embedding_norm = false;
  bool qkv_bias = true;
  bool out_bias = true;
  bool ffn_bias = true;
  bool head_bias = false;
  bool fused = true;
  int64_t qk_norm = 0;
};

Result<ModelShape> build(ConfigReader& config, const Sizes& s, const Early& e,
                         const std::vector<int64_t>& windows) {
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  const int64_t norm = e.norm_vectors * s.hidden;
  for (const int64_t window : windows) {
    builder.open_layer();
    builder.attention({.hidden = s.hidden,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .key_dim = s.head_dim,
                       .value_dim = s.head_dim,
                       .window = window,
                       .norm_elements = e.qk_norm,
                       .query_bias = e.qkv_bias,
                       .out_bias = e.out_bias,
                       .fused = e.fused});
    builder.ffn({.hidden = s.hidden, .width = s.ffn, .gated = false, .bias = e.ffn_bias});
    builder.small(e.norms * norm);
  }
  builder.outside_layers();
  builder.matrix(WeightRole::kOtherMatrix, e.positions, s.hidden);
  if (e.head_bias) builder.small(s.vocab);
  if (e.embedding_norm) builder.small(norm);
  QUIRE_TRY_VOID(finish_shape(builder, s, norm));
  return shape;
}

Result<ModelShape> build(ConfigReader& config, const Sizes& s, const Early& e) {
  return build(config, s, e, std::vector<int64_t>(static_cast<size_t>(s.layers), 0));
}

/// The feed-forward is four times as wide as the stream unless a key says otherwise.
Result<Sizes> sizes_with_wide_ffn(ConfigReader& config, Keys ffn_keys, bool tied) {
  QUIRE_TRY(const int64_t hidden,
            config.require({"hidden_size", "n_embd", "d_model", "n_embed"}, kMaxWidth / 4));
  SizeDefaults defaults{.tied = tied, .ffn_is_read = true};
  QUIRE_TRY(defaults.ffn, config.get_noted(ffn_keys, kMaxWidth, 4 * hidden));
  return read_sizes(config, defaults);
}

Result<ModelShape> read_gpt2(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, sizes_with_wide_ffn(config, {"n_inner"}, true));
  return build(config, s, {.positions = s.context});
}

Result<ModelShape> read_gpt_bigcode(ConfigReader& config) {
  QUIRE_TRY(Sizes s, sizes_with_wide_ffn(config, {"n_inner"}, true));
  QUIRE_TRY(const bool multi_query, config.flag_noted({"multi_query"}, true));
  if (multi_query) s.kv_heads = 1;
  return build(config, s, {.positions = s.context});
}

/// Layers alternate between the words of attention_types, [[["global", "local"], 12]].
Result<std::vector<int64_t>> gpt_neo_windows(ConfigReader& config, const Sizes& s) {
  QUIRE_TRY(const int64_t window, config.get_noted({"window_size"}, INT32_MAX, 256));
  std::vector<int64_t> windows;
  const formats::Json* types = config.find({"attention_types"});
  if (types != nullptr && types->is_array()) {
    for (const formats::Json& run : *types->as_array()) {
      const auto* pair = run.as_array();
      if (pair == nullptr || pair->size() != 2 || !pair->front().is_array()) break;
      const int64_t times = pair->back().as_int().value_or(0);
      for (int64_t i = 0; i < times && static_cast<int64_t>(windows.size()) < s.layers; ++i) {
        for (const formats::Json& word : *pair->front().as_array()) {
          windows.push_back(word == formats::Json("local") ? window : 0);
        }
      }
    }
  }
  if (static_cast<int64_t>(windows.size()) != s.layers) {
    return config.bad("attention_types does not describe each layer");
  }
  return windows;
}

Result<ModelShape> read_gpt_neo(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, sizes_with_wide_ffn(config, {"intermediate_size"}, true));
  QUIRE_TRY(const auto windows, gpt_neo_windows(config, s));
  return build(config, s, {.positions = s.context, .qkv_bias = false, .fused = false}, windows);
}

Result<ModelShape> read_gpt_neox(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  QUIRE_TRY(const bool bias, config.flag({"attention_bias"}, true));
  return build(config, s, {.qkv_bias = bias, .out_bias = bias});
}

Result<ModelShape> read_gptj(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, sizes_with_wide_ffn(config, {"n_inner"}, false));
  return build(
      config, s,
      {.norms = 1, .qkv_bias = false, .out_bias = false, .head_bias = true, .fused = false});
}

Result<ModelShape> read_opt(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {.tied = true}));
  QUIRE_TRY(const int64_t embedded, config.get({"word_embed_proj_dim"}, kMaxWidth, s.hidden));
  if (embedded != s.hidden) {
    return config.unsupported("word_embed_proj_dim differs from hidden_size");
  }
  constexpr int64_t kPaddingPositions = 2;
  return build(config, s, {.positions = s.context + kPaddingPositions, .fused = false});
}

Result<ModelShape> read_bloom(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, sizes_with_wide_ffn(config, {"n_inner"}, true));
  return build(config, s, {.embedding_norm = true});
}

Result<ModelShape> read_mpt(ConfigReader& config) {
  QUIRE_TRY(const int64_t ratio, config.get({"expansion_ratio"}, 64, 4));
  QUIRE_TRY(const int64_t hidden, config.require({"d_model"}, kMaxWidth / 64));
  QUIRE_TRY(Sizes s,
            read_sizes(config, {.ffn = ratio * hidden, .tied = true, .ffn_is_read = true}));
  QUIRE_TRY(const auto attention, config.inner("attn_config"));
  if (attention) {
    QUIRE_TRY(s.kv_heads, attention->get({"kv_n_heads"}, kMaxHeads, s.kv_heads));
    QUIRE_TRY_VOID(check_heads(config, s.heads, s.kv_heads));
  }
  QUIRE_TRY(const bool no_bias, config.flag({"no_bias"}, true));
  return build(config, s,
               {.norm_vectors = no_bias ? 1 : 2,
                .qkv_bias = !no_bias,
                .out_bias = !no_bias,
                .ffn_bias = !no_bias});
}

/// The new decoder shares kv heads among groups; the old one has one kv head with multi_query,
/// whatever num_kv_heads says.
Result<ModelShape> read_falcon(ConfigReader& config) {
  QUIRE_TRY(Sizes s, sizes_with_wide_ffn(config, {"ffn_hidden_size"}, true));
  QUIRE_TRY(const bool grouped, config.flag({"new_decoder_architecture"}, false));
  QUIRE_TRY(const bool multi_query, config.flag_noted({"multi_query"}, true));
  if (grouped) {
    QUIRE_TRY(s.kv_heads, config.get({"num_kv_heads", "n_head_kv"}, kMaxHeads, s.heads));
    QUIRE_TRY_VOID(check_heads(config, s.heads, s.kv_heads));
  } else {
    s.kv_heads = multi_query ? 1 : s.heads;
  }
  if (s.context == 0) {
    config.note("Falcon names no trained length: its models were trained on 2,048 tokens");
    s.context = 2048;
  }
  QUIRE_TRY(const bool bias, config.flag({"bias"}, false));
  QUIRE_TRY(const bool parallel, config.flag({"parallel_attn"}, true));
  QUIRE_TRY(const int64_t norms,
            config.get({"num_ln_in_parallel_attn"}, 2, grouped || !parallel ? 2 : 1));
  return build(config, s, {.norms = norms, .qkv_bias = bias, .out_bias = bias, .ffn_bias = bias});
}

Result<ModelShape> read_phi(ConfigReader& config) {
  QUIRE_TRY(const Sizes s, read_sizes(config, {}));
  QUIRE_TRY(const bool qk_norm, config.flag({"qk_layernorm"}, false));
  return build(
      config, s,
      {.norms = 1, .head_bias = true, .fused = false, .qk_norm = qk_norm ? 4 * s.head_dim : 0});
}

constexpr std::array kFamilies = {
    Family{"bloom", read_bloom},     Family{"falcon", read_falcon},
    Family{"gpt2", read_gpt2},       Family{"gpt_bigcode", read_gpt_bigcode},
    Family{"gpt_neo", read_gpt_neo}, Family{"gpt_neox", read_gpt_neox},
    Family{"gptj", read_gptj},       Family{"mpt", read_mpt},
    Family{"opt", read_opt},         Family{"phi", read_phi},
};

}  // namespace

std::span<const Family> early_families() {
  return kFamilies;
}

}  // namespace quire::plan
