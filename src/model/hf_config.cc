#include "model/hf_config.h"

#include <fmt/format.h>

#include "base/checked_math.h"

namespace quire::model {

using formats::Json;

namespace {

Error wrong_type(std::string_view key, std::string_view expected, const Json& found) {
  return {ErrorCode::kBadFile,
          fmt::format("config.json: {} should be {}, but is {}", key, expected, found.dump())};
}

}  // namespace

const Json* HfConfig::find(std::string_view key) const {
  const Json* value = json_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<int32_t> HfConfig::require_int(std::string_view key) const {
  if (find(key) == nullptr) {
    return Error{ErrorCode::kBadFile, fmt::format("config.json has no {}", key)};
  }
  return int_or(key, 0);
}

Result<int32_t> HfConfig::int_or(std::string_view key, int32_t fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const auto number = value->as_int();
  const auto fits = number ? checked_cast<int32_t>(*number) : std::nullopt;
  if (!fits) return wrong_type(key, "a 32-bit integer", *value);
  return *fits;
}

Result<double> HfConfig::number_or(std::string_view key, double fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const auto number = value->as_double();
  if (!number) return wrong_type(key, "a number", *value);
  return *number;
}

Result<bool> HfConfig::bool_or(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const auto flag = value->as_bool();
  if (!flag) return wrong_type(key, "true or false", *value);
  return *flag;
}

Result<std::string> HfConfig::text_or(std::string_view key, std::string_view fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  const std::string* text = value->as_string();
  if (text == nullptr) return wrong_type(key, "a string", *value);
  return *text;
}

Result<std::optional<std::vector<int32_t>>> HfConfig::ints(std::string_view key) const {
  const Json* array = find(key);
  if (array == nullptr) return std::optional<std::vector<int32_t>>();
  if (!array->is_array()) return wrong_type(key, "a list of integers", *array);
  std::vector<int32_t> numbers;
  for (const Json& value : *array->as_array()) {
    const auto number = value.as_int();
    const auto fits = number ? checked_cast<int32_t>(*number) : std::nullopt;
    if (!fits) return wrong_type(key, "a list of integers", value);
    numbers.push_back(*fits);
  }
  return std::optional(std::move(numbers));
}

Result<void> HfConfig::expect_text(std::string_view key, std::string_view expected) const {
  QUIRE_TRY(const std::string found, text_or(key, expected));
  if (found == expected) return {};
  QUIRE_TRY(const std::string type, text_or("model_type", "this architecture"));
  return Error{ErrorCode::kUnsupported,
               fmt::format("config.json: {} '{}' is not run for {}; known: "
                           "{}",
                           key, found, type, expected)};
}

Result<void> HfConfig::expect_flag(std::string_view key, bool expected) const {
  QUIRE_TRY(const bool found, bool_or(key, expected));
  if (found == expected) return {};
  QUIRE_TRY(const std::string type, text_or("model_type", "this architecture"));
  return Error{ErrorCode::kUnsupported,
               fmt::format("config.json: {} = {} is not run for {}", key, found, type)};
}

Result<std::optional<std::vector<bool>>> HfConfig::window_layers(int32_t num_layers) const {
  const Json* types = find("layer_types");
  if (types == nullptr) return std::optional<std::vector<bool>>();
  if (!types->is_array() || types->as_array()->size() != static_cast<size_t>(num_layers)) {
    return Error{
        ErrorCode::kBadFile,
        fmt::format("config.json: layer_types does not name each of {} layers", num_layers)};
  }
  std::vector<bool> windows;
  for (const Json& type : *types->as_array()) {
    const std::string* name = type.as_string();
    const bool slides = name != nullptr && *name == "sliding_attention";
    if (!slides && (name == nullptr || *name != "full_attention")) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("config.json: layer type {} is not run; known: full_attention, "
                               "sliding_attention",
                               type.dump())};
    }
    windows.push_back(slides);
  }
  return std::optional(std::move(windows));
}

Result<ModelConfig> HfConfig::common() const {
  ModelConfig c;
  QUIRE_TRY(c.num_layers, require_int("num_hidden_layers"));
  QUIRE_TRY(c.hidden, require_int("hidden_size"));
  QUIRE_TRY(c.ffn, require_int("intermediate_size"));
  QUIRE_TRY(c.num_heads, require_int("num_attention_heads"));
  QUIRE_TRY(c.num_kv_heads, int_or("num_key_value_heads", c.num_heads));
  QUIRE_TRY(c.vocab, require_int("vocab_size"));
  QUIRE_TRY(c.context, require_int("max_position_embeddings"));
  QUIRE_TRY(c.head_dim, int_or("head_dim", c.num_heads > 0 ? c.hidden / c.num_heads : 0));
  QUIRE_TRY(const double eps, number_or("rms_norm_eps", 1e-6));
  c.norm_eps = static_cast<float>(eps);
  return c;
}

Result<RopeConfig> HfConfig::rope(std::string_view layer_type, int32_t head_dim) const {
  if (const Json* parameters = find("rope_parameters")) {
    // Newer files: one object, or one a layer type.
    const Json* own = parameters->find(layer_type);
    const Json& fields = own != nullptr && own->is_object() ? *own : *parameters;
    QUIRE_TRY(const double theta, HfConfig(fields).number_or("rope_theta", 10000.0));
    return scaled_rope(fields, theta, head_dim);
  }
  QUIRE_TRY(const double theta, number_or("rope_theta", 10000.0));
  const Json none(Json::Object{});
  const Json* scaling = find("rope_scaling");
  return scaled_rope(scaling != nullptr ? *scaling : none, theta, head_dim);
}

Result<RopeConfig> HfConfig::scaled_rope(const Json& json, double theta, int32_t head_dim) const {
  const HfConfig fields(json);
  RopeConfig rope;
  rope.theta = theta;
  QUIRE_TRY(const double outer_share, number_or("partial_rotary_factor", 1.0));
  QUIRE_TRY(const double share, fields.number_or("partial_rotary_factor", outer_share));
  if (!(share > 0.0 && share <= 1.0)) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("config.json: partial_rotary_factor {} is no share of a head", share)};
  }
  rope.dims = static_cast<int32_t>(head_dim * share);
  QUIRE_TRY(const std::string old_name, fields.text_or("type", "default"));
  QUIRE_TRY(const std::string name, fields.text_or("rope_type", old_name));
  if (name == "default") return rope;
  if (name == "longrope" || name == "su" || fields.find("long_factor") != nullptr) {
    return long_rope(fields, std::move(rope));
  }
  if (name == "yarn") return yarn(fields, std::move(rope));
  QUIRE_TRY(rope.factor, fields.number_or("factor", 1.0));
  if (name == "linear") {
    rope.scaling = RopeScaling::kLinear;
    return rope;
  }
  if (name != "llama3") {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("config.json: RoPE scaling '{}' is not run; known: default, linear, llama3, "
                    "yarn, longrope",
                    name)};
  }
  rope.scaling = RopeScaling::kLlama3;
  QUIRE_TRY(rope.low_freq_factor, fields.number_or("low_freq_factor", 1.0));
  QUIRE_TRY(rope.high_freq_factor, fields.number_or("high_freq_factor", 4.0));
  QUIRE_TRY(rope.original_context, fields.number_or("original_max_position_embeddings", 8192.0));
  return rope;
}

Result<double> HfConfig::original_context(const HfConfig& fields) const {
  QUIRE_TRY(const double context, number_or("max_position_embeddings", 0.0));
  QUIRE_TRY(const double inner, fields.number_or("original_max_position_embeddings", context));
  return number_or("original_max_position_embeddings", inner);
}

/// An explicit factor wins over the ratio of the two lengths. // arXiv:2309.00071
Result<RopeConfig> HfConfig::yarn(const HfConfig& fields, RopeConfig rope) const {
  rope.scaling = RopeScaling::kYarn;
  QUIRE_TRY(rope.original_context, original_context(fields));
  QUIRE_TRY(const double context, number_or("max_position_embeddings", 0.0));
  QUIRE_TRY(rope.factor, fields.number_or("factor", context / rope.original_context));
  QUIRE_TRY(rope.beta_fast, fields.number_or("beta_fast", 32.0));
  QUIRE_TRY(rope.beta_slow, fields.number_or("beta_slow", 1.0));
  QUIRE_TRY(rope.whole_pairs, fields.bool_or("truncate", true));
  QUIRE_TRY(const double mscale, fields.number_or("mscale", 0.0));
  QUIRE_TRY(const double mscale_all, fields.number_or("mscale_all_dim", 0.0));
  double magnitude = yarn_magnitude(rope.factor);
  if (mscale > 0.0 && mscale_all > 0.0) {
    magnitude = (1.0 + mscale * (magnitude - 1.0)) / (1.0 + mscale_all * (magnitude - 1.0));
  }
  QUIRE_TRY(rope.magnitude, fields.number_or("attention_factor", magnitude));
  return rope;
}

Result<RopeConfig> HfConfig::long_rope(const HfConfig& fields, RopeConfig rope) const {
  rope.scaling = RopeScaling::kLongRope;
  QUIRE_TRY(rope.original_context, original_context(fields));
  QUIRE_TRY(const double context, number_or("max_position_embeddings", 0.0));
  QUIRE_TRY(rope.factor, fields.number_or("factor", context / rope.original_context));
  const double magnitude = long_rope_magnitude(rope.factor, rope.original_context);
  QUIRE_TRY(rope.magnitude, fields.number_or("attention_factor", magnitude));
  QUIRE_TRY(rope.divisors, fields.floats("short_factor"));
  QUIRE_TRY(rope.long_divisors, fields.floats("long_factor"));
  return rope;
}

Result<std::vector<float>> HfConfig::floats(std::string_view key) const {
  const Json* array = find(key);
  if (array == nullptr || !array->is_array()) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("config.json: the RoPE scaling has no list {}", key)};
  }
  std::vector<float> numbers;
  for (const Json& value : *array->as_array()) {
    const auto number = value.as_double();
    if (!number) return wrong_type(key, "a list of numbers", value);
    numbers.push_back(static_cast<float>(*number));
  }
  return numbers;
}

}  // namespace quire::model
