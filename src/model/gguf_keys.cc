#include "model/gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace quire::model {

using formats::GgufType;

Result<int32_t> GgufKeys::require_int(std::string_view key) const {
  return metadata_.require<int32_t>(prefix_ + std::string(key));
}

Result<int32_t> GgufKeys::int_or(std::string_view key, int32_t fallback) const {
  QUIRE_TRY(const auto value, metadata_.get<int32_t>(prefix_ + std::string(key)));
  return value.value_or(fallback);
}

Result<double> GgufKeys::require_number(std::string_view key) const {
  return metadata_.require<double>(prefix_ + std::string(key));
}

Result<double> GgufKeys::number_or(std::string_view key, double fallback) const {
  QUIRE_TRY(const auto value, metadata_.get<double>(prefix_ + std::string(key)));
  return value.value_or(fallback);
}

Result<std::string> GgufKeys::text_or(std::string_view key, std::string_view fallback) const {
  QUIRE_TRY(const auto value, metadata_.get<std::string_view>(prefix_ + std::string(key)));
  return std::string(value.value_or(fallback));
}

Result<int32_t> GgufKeys::uniform(std::string_view key, std::optional<int32_t> fallback) const {
  const std::string full = prefix_ + std::string(key);
  const formats::GgufValue* value = metadata_.find(full);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || value->type != GgufType::kArray) return metadata_.require<int32_t>(full);
  QUIRE_TRY(const auto per_layer, metadata_.require<std::vector<int32_t>>(full));
  if (per_layer.empty())
    return Error{ErrorCode::kBadFile, fmt::format("{} is an empty array", full)};
  if (std::ranges::any_of(per_layer, [&](int32_t n) { return n != per_layer.front(); })) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} differs from layer to layer, which Quire does not run", full)};
  }
  return per_layer.front();
}

Result<ModelConfig> GgufKeys::common(NormKind norm) const {
  ModelConfig c;
  c.architecture = prefix_.substr(0, prefix_.size() - 1);
  c.norm = norm;
  QUIRE_TRY(c.num_layers, require_int("block_count"));
  QUIRE_TRY(c.hidden, require_int("embedding_length"));
  QUIRE_TRY(c.ffn, uniform("feed_forward_length", std::nullopt));
  QUIRE_TRY(c.num_heads, uniform("attention.head_count", std::nullopt));
  QUIRE_TRY(c.num_kv_heads, uniform("attention.head_count_kv", c.num_heads));
  QUIRE_TRY(c.context, require_int("context_length"));
  QUIRE_TRY(const double eps,
            require_number(norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                  : "attention.layer_norm_epsilon"));
  c.norm_eps = static_cast<float>(eps);

  const int32_t even_split = c.num_heads > 0 ? c.hidden / c.num_heads : 0;
  QUIRE_TRY(c.head_dim, int_or("attention.key_length", even_split));
  QUIRE_TRY(const int32_t value_dim, int_or("attention.value_length", c.head_dim));
  if (value_dim != c.head_dim) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("keys of {} and values of {} dimensions are not run together",
                             c.head_dim, value_dim)};
  }
  return c;
}

Result<RopeConfig> GgufKeys::rope(int32_t head_dim) const {
  RopeConfig rope;
  QUIRE_TRY(rope.dims, int_or("rope.dimension_count", head_dim));
  QUIRE_TRY(rope.theta, number_or("rope.freq_base", 10000.0));
  QUIRE_TRY(const std::string type, text_or("rope.scaling.type", "none"));
  if (type == "none") return rope;
  return scaled(type, std::move(rope));
}

Result<RopeConfig> GgufKeys::long_rope(RopeConfig rope) const {
  rope.scaling = RopeScaling::kLongRope;
  QUIRE_TRY(rope.original_context, require_number("rope.scaling.original_context_length"));
  QUIRE_TRY(const double context, require_number("context_length"));
  rope.factor = context / rope.original_context;
  const double magnitude = long_rope_magnitude(rope.factor, rope.original_context);
  QUIRE_TRY(rope.magnitude, number_or("rope.scaling.attn_factor", magnitude));
  return rope;
}

Result<RopeConfig> GgufKeys::scaled(std::string_view type, RopeConfig rope) const {
  if (type == "longrope") return long_rope(std::move(rope));
  if (type != "linear" && type != "yarn") {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}rope.scaling.type is '{}'; known: none, linear, yarn, longrope",
                             prefix_, type)};
  }
  QUIRE_TRY(rope.factor, require_number("rope.scaling.factor"));
  rope.scaling = type == "linear" ? RopeScaling::kLinear : RopeScaling::kYarn;
  if (rope.scaling == RopeScaling::kLinear) return rope;
  QUIRE_TRY(rope.original_context, require_number("rope.scaling.original_context_length"));
  QUIRE_TRY(rope.beta_fast, number_or("rope.scaling.yarn_beta_fast", 32.0));
  QUIRE_TRY(rope.beta_slow, number_or("rope.scaling.yarn_beta_slow", 1.0));
  QUIRE_TRY(rope.magnitude,
            number_or("rope.scaling.yarn_attn_factor", yarn_magnitude(rope.factor)));
  return rope;
}

Result<ExpertConfig> GgufKeys::experts(const ModelConfig& config) const {
  ExpertConfig e;
  QUIRE_TRY(e.count, int_or("expert_count", 0));
  if (e.count == 0) return e;
  QUIRE_TRY(e.per_token, require_int("expert_used_count"));
  QUIRE_TRY(e.ffn, int_or("expert_feed_forward_length", config.ffn));
  QUIRE_TRY(e.shared_ffn, int_or("expert_shared_feed_forward_length", 0));
  return e;
}

}  // namespace quire::model
