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

Result<ModelConfig> GgufKeys::common() const {
  ModelConfig c;
  c.architecture = prefix_.substr(0, prefix_.size() - 1);
  QUIRE_TRY(const int32_t experts, int_or("expert_count", 0));
  if (experts > 0) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("{}expert_count is {}: mixtures of experts are not run", prefix_, experts)};
  }
  QUIRE_TRY(c.num_layers, require_int("block_count"));
  QUIRE_TRY(c.hidden, require_int("embedding_length"));
  QUIRE_TRY(c.ffn, uniform("feed_forward_length", std::nullopt));
  QUIRE_TRY(c.num_heads, uniform("attention.head_count", std::nullopt));
  QUIRE_TRY(c.num_kv_heads, uniform("attention.head_count_kv", c.num_heads));
  QUIRE_TRY(c.context, require_int("context_length"));
  QUIRE_TRY(const double eps, require_number("attention.layer_norm_rms_epsilon"));
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
  QUIRE_TRY(const std::string scaling, text_or("rope.scaling.type", "none"));
  if (scaling == "none") return rope;
  if (scaling != "linear") {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}rope.scaling.type is '{}'; known: none, linear", prefix_, scaling)};
  }
  rope.scaling = RopeScaling::kLinear;
  QUIRE_TRY(rope.factor, require_number("rope.scaling.factor"));
  return rope;
}

}  // namespace quire::model
