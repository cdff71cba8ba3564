#include "plan/families/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/byte_size.h"

namespace quire::plan {
namespace {

Result<int64_t> size_of(ConfigReader& config, Keys keys, int64_t most, int64_t fallback) {
  return fallback == 0 ? config.require(keys, most) : config.get_noted(keys, most, fallback);
}

Result<int64_t> read_head_dim(ConfigReader& config, const Sizes& s, int64_t fallback) {
  if (config.has({"head_dim"}) || fallback > 0) {
    return config.get_noted({"head_dim"}, kMaxHeadDim, fallback);
  }
  if (s.hidden % s.heads != 0) {
    return config.bad(
        fmt::format("head_dim is missing, and hidden_size {} is no multiple of {} "
                    "heads",
                    s.hidden, s.heads));
  }
  return s.hidden / s.heads;
}

/// A window that is never full limits nothing.
void drop_endless_windows(ConfigReader& config, int64_t context, std::vector<int64_t>& windows) {
  int64_t dropped = 0;
  for (int64_t& window : windows) {
    if (context == 0 || window < context) continue;
    dropped = window;
    window = 0;
  }
  if (dropped == 0) return;
  config.note(
      fmt::format("a window of {} tokens never closes within {} tokens: those layers keep "
                  "everything",
                  format_count(dropped), format_count(context)));
}

Result<int64_t> window_tokens(ConfigReader& config, int64_t fallback) {
  if (fallback > 0) return config.get_noted({"sliding_window"}, INT32_MAX, fallback);
  return config.get({"sliding_window", "sliding_window_size"}, INT32_MAX, 0);
}

Result<std::vector<int64_t>> windows_of_types(ConfigReader& config,
                                              const std::vector<std::string>& types,
                                              const WindowTraits& traits) {
  std::vector<int64_t> windows;
  for (const std::string& type : types) {
    int64_t window = 0;
    if (type == "sliding_attention") {
      QUIRE_TRY(window, window_tokens(config, traits.default_window));
      if (window == 0) return config.bad("layer_types has windows, but sliding_window is missing");
    } else if (type == "chunked_attention") {
      QUIRE_TRY(window, config.require({"attention_chunk_size"}, INT32_MAX));
    } else if (type != "full_attention" && type != "attention") {
      return config.unsupported(
          fmt::format("layer_types has '{}', which {} is not known for", type, config.family()));
    }
    windows.push_back(window);
  }
  return windows;
}

Result<std::vector<int64_t>> patterned(ConfigReader& config, const Sizes& sizes, int64_t window,
                                       int64_t pattern) {
  QUIRE_TRY(const int64_t every, config.get({"sliding_window_pattern", "_sliding_window_pattern",
                                             "layer_switch", "no_rope_layer_interval"},
                                            kMaxLayers, pattern));
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < sizes.layers; ++i) windows.push_back((i + 1) % every == 0 ? 0 : window);
  return windows;
}

Result<std::vector<int64_t>> windows_by_rule(ConfigReader& config, const Sizes& sizes,
                                             const WindowTraits& traits) {
  std::vector<int64_t> windows(static_cast<size_t>(sizes.layers), 0);
  switch (traits.rule) {
    case WindowRule::kNone:
      return windows;
    case WindowRule::kAll: {
      // An explicit null means: no window.
      const bool said = config.mentions("sliding_window");
      QUIRE_TRY(const int64_t window, window_tokens(config, said ? 0 : traits.default_window));
      std::ranges::fill(windows, window);
      return windows;
    }
    case WindowRule::kQwen: {
      QUIRE_TRY(const bool used, config.flag({"use_sliding_window"}, false));
      if (!used) return windows;
      QUIRE_TRY(const int64_t window, config.require({"sliding_window"}, INT32_MAX));
      QUIRE_TRY(const int64_t from, config.get_from_zero({"max_window_layers"}, INT32_MAX, 28));
      for (int64_t i = from; i < sizes.layers; ++i) windows[static_cast<size_t>(i)] = window;
      return windows;
    }
    case WindowRule::kPattern: {
      QUIRE_TRY(const int64_t window, window_tokens(config, traits.default_window));
      if (window == 0) return windows;
      return patterned(config, sizes, window, traits.pattern);
    }
    case WindowRule::kChunked: {
      QUIRE_TRY(const int64_t chunk, config.get({"attention_chunk_size"}, INT32_MAX, 0));
      if (chunk == 0) return windows;
      return patterned(config, sizes, chunk, traits.pattern);
    }
  }
  return windows;
}

/// Which layers have experts instead of one feed-forward.
Result<std::vector<bool>> sparse_layers(ConfigReader& config, const Sizes& sizes) {
  std::vector<bool> sparse(static_cast<size_t>(sizes.layers), true);
  QUIRE_TRY(const auto named, config.indices({"moe_layers"}, kMaxLayers));
  if (!named.empty()) {
    std::fill(sparse.begin(), sparse.end(), false);
    for (const int64_t i : named) {
      if (i < sizes.layers) sparse[static_cast<size_t>(i)] = true;
    }
    return sparse;
  }
  QUIRE_TRY(const auto types, config.words({"mlp_layer_types"}, sizes.layers));
  for (size_t i = 0; i < types.size(); ++i) sparse[i] = types[i] != "dense";
  if (!types.empty()) return sparse;
  QUIRE_TRY(const int64_t first, config.get_from_zero({"first_k_dense_replace",
                                                       "moe_layer_start_index", "num_dense_layers"},
                                                      kMaxLayers, 0));
  QUIRE_TRY(const int64_t step, config.get({"decoder_sparse_step", "moe_layer_interval",
                                            "interleave_moe_layer_step", "moe_layer_freq"},
                                           kMaxLayers, 1));
  for (int64_t i = 0; i < sizes.layers; ++i) {
    sparse[static_cast<size_t>(i)] = i >= first && (i + 1) % step == 0;
  }
  QUIRE_TRY(const auto dense, config.indices({"mlp_only_layers"}, kMaxLayers));
  for (const int64_t i : dense) {
    if (i < sizes.layers) sparse[static_cast<size_t>(i)] = false;
  }
  return sparse;
}

}  // namespace

Result<void> check_heads(const ConfigReader& config, int64_t heads, int64_t kv_heads) {
  if (heads % kv_heads == 0) return {};
  return config.bad(fmt::format("{} heads cannot share {} kv heads evenly", heads, kv_heads));
}

namespace {

Result<void> read_heads(ConfigReader& config, const SizeDefaults& d, Sizes& s) {
  const Keys kv_keys = {"num_key_value_heads", "num_kv_heads", "multi_query_group_num"};
  if (config.has(kv_keys) || d.kv_heads == 0) {
    QUIRE_TRY(s.kv_heads, config.get(kv_keys, kMaxHeads, s.heads));
  } else {
    QUIRE_TRY(s.kv_heads, config.get_noted({"num_key_value_heads"}, kMaxHeads, d.kv_heads));
  }
  QUIRE_TRY_VOID(check_heads(config, s.heads, s.kv_heads));
  QUIRE_TRY(s.head_dim, read_head_dim(config, s, d.head_dim));
  return {};
}

/// A model that YaRN stretches knows the stretched length, which some configurations do not state.
Result<int64_t> stretched_context(const ConfigReader& config, int64_t context) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    QUIRE_TRY(const auto rope, config.inner(key));
    if (!rope) continue;
    QUIRE_TRY(const std::string type, rope->text({"rope_type", "type"}, ""));
    if (type != "yarn") continue;
    QUIRE_TRY(const double factor, rope->number({"factor"}, 1.0));
    QUIRE_TRY(const int64_t original,
              rope->get({"original_max_position_embeddings"}, kMaxTokens, 0));
    const double stretched = static_cast<double>(original) * factor;
    if (!(stretched < static_cast<double>(kMaxTokens))) continue;
    context = std::max<int64_t>(context, std::llround(stretched));
  }
  return context;
}

}  // namespace

Result<Sizes> read_sizes(ConfigReader& config, const SizeDefaults& d) {
  Sizes s;
  QUIRE_TRY(s.layers, size_of(config, {"num_hidden_layers", "num_layers", "n_layer", "n_layers"},
                              kMaxLayers, d.layers));
  QUIRE_TRY(s.hidden,
            size_of(config, {"hidden_size", "n_embd", "d_model", "n_embed"}, kMaxWidth, d.hidden));
  QUIRE_TRY(s.heads, size_of(config, {"num_attention_heads", "n_head", "n_heads", "num_heads"},
                             kMaxHeads, d.heads));
  QUIRE_TRY(s.vocab, size_of(config, {"vocab_size", "padded_vocab_size"}, kMaxVocab, d.vocab));
  if (!d.latent) QUIRE_TRY_VOID(read_heads(config, d, s));
  s.ffn = d.ffn;
  if (!d.ffn_is_read) {
    QUIRE_TRY(s.ffn, size_of(config,
                             {"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim",
                              "ffn_hidden_dim"},
                             kMaxWidth, d.ffn));
  }
  const Keys context = {"max_position_embeddings",
                        "n_positions",
                        "max_sequence_length",
                        "model_max_length",
                        "seq_length",
                        "n_ctx",
                        "max_seq_len"};
  if (d.context > 0) {
    QUIRE_TRY(s.context, config.get_noted(context, kMaxTokens, d.context));
  } else {
    QUIRE_TRY(s.context, config.get(context, kMaxTokens, 0));
    if (s.context == 0) config.note("max_position_embeddings is missing: no trained length known");
  }
  QUIRE_TRY(s.context, stretched_context(config, s.context));
  QUIRE_TRY(s.tied, config.flag_noted({"tie_word_embeddings"}, d.tied));
  return s;
}

ModelShape begin_shape(const ConfigReader& config, const Sizes& s) {
  ModelShape shape;
  shape.family = config.family();
  shape.context = s.context;
  shape.vocab = s.vocab;
  shape.widths = {.hidden = s.hidden,
                  .query = s.heads * s.head_dim,
                  .key_value = s.kv_heads * s.head_dim,
                  .ffn = s.ffn,
                  .heads = s.heads,
                  .head_dim = s.head_dim,
                  .num_ropes = 1};
  return shape;
}

Result<void> finish_shape(ShapeBuilder& builder, const Sizes& s, int64_t norm_elements) {
  builder.outside_layers();
  builder.matrix(WeightRole::kEmbedding, s.vocab, s.hidden);
  builder.small(norm_elements);
  if (!s.tied) builder.matrix(WeightRole::kHead, s.vocab, s.hidden);
  return builder.check();
}

Result<std::vector<int64_t>> read_windows(ConfigReader& config, const Sizes& sizes,
                                          const WindowTraits& traits) {
  QUIRE_TRY(const auto types, config.words({"layer_types"}, sizes.layers));
  std::vector<int64_t> windows;
  if (types.empty()) {
    QUIRE_TRY(windows, windows_by_rule(config, sizes, traits));
  } else {
    QUIRE_TRY(windows, windows_of_types(config, types, traits));
  }
  drop_endless_windows(config, sizes.context, windows);
  return windows;
}

Result<std::optional<ExpertLayers>> read_experts(ConfigReader& config, const Sizes& sizes) {
  const Keys keys = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"};
  QUIRE_TRY(const int64_t experts, config.get_from_zero(keys, kMaxExperts, 0));
  if (experts == 0) return std::optional<ExpertLayers>();
  ExpertLayers out;
  out.part = {.hidden = sizes.hidden, .experts = experts};
  QUIRE_TRY(out.part.width, config.get({"moe_intermediate_size", "expert_intermediate_size"},
                                       kMaxWidth, sizes.ffn));
  QUIRE_TRY(const int64_t shared,
            config.get_from_zero({"n_shared_experts", "moe_num_shared_experts", "num_shared_expert",
                                  "num_shared_experts"},
                                 kMaxExperts, 0));
  QUIRE_TRY(out.part.shared_width,
            config.get_from_zero({"shared_expert_intermediate_size", "shared_intermediate_size",
                                  "moe_shared_expert_intermediate_size"},
                                 kMaxWidth, shared * out.part.width));
  QUIRE_TRY(out.sparse, sparse_layers(config, sizes));
  return std::optional(std::move(out));
}

AttentionPart attention_of(const Sizes& s) {
  return {.hidden = s.hidden,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .key_dim = s.head_dim,
          .value_dim = s.head_dim};
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

void feed_forward(ShapeBuilder& builder, const std::optional<ExpertLayers>& experts, size_t layer,
                  const FfnPart& dense) {
  if (experts && experts->sparse[layer]) {
    builder.experts(experts->part);
  } else {
    builder.ffn(dense);
  }
}

}  // namespace quire::plan
