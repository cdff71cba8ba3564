#include "server/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/printable.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr int kMostDepth = 64;

/// Levels of nesting, without parsing anything but strings.
int json_depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

std::string_view kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "an array";
  return "an object";
}

ApiResult<Json> parse_body(std::string_view body) {
  if (body.empty()) return bad_param("", "The request has no body; send a JSON object.");
  if (json_depth(body) > kMostDepth) {
    return bad_param("", fmt::format("The JSON is nested more than {} levels deep.", kMostDepth));
  }
  Result<Json> json = Json::parse(body, "the request's body");
  if (!json.ok()) {
    return bad_param("", fmt::format("We could not parse the JSON body of your request: {}",
                                     json.error().message));
  }
  if (!json->is_object()) {
    return bad_param("", fmt::format("The body must be a JSON object, not {}.", kind_of(*json)));
  }
  return *std::move(json);
}

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* Fields::find(std::string_view name) const {
  const Json* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::fail(std::string_view name, std::string message) {
  const std::string param = prefix_ + std::string(name);
  fail(bad_param(param, fmt::format("Invalid '{}': {}", param, message)));
}

void Fields::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = value->as_double();
  if (number && *number >= least && *number <= most) return number;
  fail(name, fmt::format("it must be a number from {} to {}{}.", least, most,
                         number ? fmt::format(", not {}", *number)
                                : fmt::format(", not {}", kind_of(*value))));
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number = value->as_int();
  // 16.0 is how some languages print 16.
  const std::optional<double> real = value->as_double();
  if (!number && real && *real >= -9e15 && *real <= 9e15 &&
      static_cast<double>(static_cast<int64_t>(*real)) == *real) {
    number = static_cast<int64_t>(*real);
  }
  if (number && *number >= least && *number <= most) return number;
  fail(name, fmt::format("it must be a whole number from {} to {}{}.", least, most,
                         real ? fmt::format(", not {}", value->dump())
                              : fmt::format(", not {}", kind_of(*value))));
  return std::nullopt;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_bool()) return value->as_bool();
  fail(name, fmt::format("it must be true or false, not {}.", kind_of(*value)));
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view name, size_t most_bytes) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string* text = value->as_string();
  if (text == nullptr) {
    fail(name, fmt::format("it must be a string, not {}.", kind_of(*value)));
    return std::nullopt;
  }
  if (text->size() > most_bytes) {
    fail(name, fmt::format("it must have at most {} bytes, not {}.", most_bytes, text->size()));
    return std::nullopt;
  }
  return *text;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  fail(name, fmt::format("it must be an object, not {}.", kind_of(*value)));
  return nullptr;
}

const Json* Fields::array(std::string_view name, size_t most) {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    fail(name, fmt::format("it must be an array, not {}.", kind_of(*value)));
    return nullptr;
  }
  if (value->as_array()->size() > most) {
    fail(name,
         fmt::format("it must have at most {} elements, not {}.", most, value->as_array()->size()));
    return nullptr;
  }
  return value;
}

std::optional<std::string> Fields::choice(std::string_view name,
                                          std::initializer_list<std::string_view> choices) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string* text = value->as_string();
  if (text != nullptr && std::ranges::count(choices, *text) > 0) return *text;
  fail(name, fmt::format("it must be one of {}, not {}.", fmt::join(choices, ", "),
                         text ? fmt::format("'{}'", formats::printable(*text))
                              : std::string(kind_of(*value))));
  return std::nullopt;
}

void Fields::refuse(std::initializer_list<std::string_view> names, std::string_view why) {
  for (const std::string_view name : names) {
    if (has(name)) fail(name, std::string(why));
  }
}

}  // namespace quire::server
