#include "engine/grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "engine/grammar/schema_resolver.h"

namespace quire::engine::grammar {
namespace {

using formats::Json;

template <size_t kSize>
bool is_one_of(std::string_view key, const std::array<std::string_view, kSize>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

constexpr auto kLowerBounds = std::to_array<std::string_view>(
    {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"});
constexpr auto kUpperBounds = std::to_array<std::string_view>(
    {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"});
constexpr auto kSingle = std::to_array<std::string_view>(
    {"pattern", "format", "prefixItems", "multipleOf", "uniqueItems", "additionalItems"});

Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  Json schema;
  schema.set("allOf", Json(Json::Array{a, b}));
  return schema;
}

Json::Array as_list(const Json& value) {
  return value.is_array() ? *value.as_array() : Json::Array{value};
}

bool contains(const Json::Array& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json::Array common_types(const Json::Array& a, const Json::Array& b) {
  Json::Array common;
  for (const Json& type : a) {
    if (contains(b, type) || (type == Json("integer") && contains(b, Json("number")))) {
      common.push_back(type);
    }
  }
  if (contains(b, Json("integer")) && contains(a, Json("number")) &&
      !contains(a, Json("integer"))) {
    common.push_back(Json("integer"));
  }
  return common;
}

Json::Array common_values(const Json::Array& a, const Json::Array& b) {
  Json::Array common;
  std::copy_if(a.begin(), a.end(), std::back_inserter(common),
               [&](const Json& value) { return contains(b, value); });
  return common;
}

/// What one schema says about the properties that only the other one names.
Json limited(const Json& owner, std::string_view key, const Json& property) {
  const Json* other = owner.find("additionalProperties");
  const Json* own = owner.find("properties");
  if (other == nullptr || (own != nullptr && own->find(key) != nullptr)) return property;
  if (other->as_bool() == std::optional(true)) return property;
  return other->is_bool() ? Json(false) : both(property, *other);
}

void merge_properties(Json& merged, const Json& a, const Json& b) {
  const Json* a_properties = a.find("properties");
  const Json* b_properties = b.find("properties");
  if (a_properties == nullptr && b_properties == nullptr) return;
  Json properties{Json::Object{}};
  if (a_properties != nullptr && a_properties->is_object()) {
    for (const auto& [key, property] : *a_properties->as_object()) {
      const Json* other = b_properties == nullptr ? nullptr : b_properties->find(key);
      properties.set(key, other != nullptr ? both(property, *other) : limited(b, key, property));
    }
  }
  if (b_properties != nullptr && b_properties->is_object()) {
    for (const auto& [key, property] : *b_properties->as_object()) {
      if (properties.find(key) == nullptr) properties.set(key, limited(a, key, property));
    }
  }
  merged.set("properties", std::move(properties));
}

/// False if no value satisfies both.
Result<bool> merge_keyword(Json& merged, const std::string& key, const Json& theirs,
                           std::string_view path) {
  const Json* ours = merged.find(key);
  if (ours == nullptr || *ours == theirs) {
    merged.set(key, theirs);
    return true;
  }
  if (key == "type") {
    Json::Array types = common_types(as_list(*ours), as_list(theirs));
    const bool possible = !types.empty();
    merged.set(key, Json(std::move(types)));
    return possible;
  }
  if (key == "enum" && ours->is_array() && theirs.is_array()) {
    Json::Array values = common_values(*ours->as_array(), *theirs.as_array());
    const bool possible = !values.empty();
    merged.set(key, Json(std::move(values)));
    return possible;
  }
  if (key == "const") return false;
  if (key == "required" && ours->is_array() && theirs.is_array()) {
    Json::Array names = *ours->as_array();
    for (const Json& name : *theirs.as_array()) {
      if (!contains(names, name)) names.push_back(name);
    }
    merged.set(key, Json(std::move(names)));
    return true;
  }
  if (key == "items" || key == "additionalProperties") {
    merged.set(key, both(*ours, theirs));
    return true;
  }
  const bool numbers = ours->is_number() && theirs.is_number();
  const bool lower = is_one_of(key, kLowerBounds);
  if (numbers && (lower || is_one_of(key, kUpperBounds))) {
    if ((*theirs.as_double() > *ours->as_double()) == lower) merged.set(key, theirs);
    return true;
  }
  if (lower || is_one_of(key, kUpperBounds) || is_one_of(key, kSingle) || key == "enum" ||
      key == "required") {
    return schema_error(path, fmt::format("two different values of {} cannot be combined", key));
  }
  return true;  // says nothing about values
}

}  // namespace

Result<std::optional<Json>> merge_schemas(const Json& a, const Json& b, std::string_view path) {
  Json merged = a;
  for (const auto& [key, value] : *b.as_object()) {
    if (key == "properties") continue;
    QUIRE_TRY(const bool possible, merge_keyword(merged, key, value, path));
    if (!possible) return std::optional<Json>();
  }
  merge_properties(merged, a, b);
  return std::optional(std::move(merged));
}

}  // namespace quire::engine::grammar
