#include "engine/grammar/schema_resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/grammar/schema_merge.h"
#include "formats/printable.h"

namespace quire::engine::grammar {
namespace {

using formats::Json;

constexpr int32_t kMostDepth = 64;  // of references and combinations in one place
constexpr size_t kMostAlternatives = 4096;
constexpr int64_t kMostMergedValues = 1'000'000;  // some 100 bytes each

/// They restrict values in a way that a grammar cannot follow.
constexpr auto kRefused = std::to_array<std::string_view>(
    {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
     "patternProperties", "propertyNames", "contains", "minContains", "maxContains",
     "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"});
constexpr auto kCombinations = std::to_array<std::string_view>({"$ref", "allOf", "anyOf", "oneOf"});
/// They say nothing about values.
constexpr auto kRemarks = std::to_array<std::string_view>(
    {"title", "description", "default", "examples", "example", "$schema", "$id", "$comment",
     "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "discriminator", "$anchor",
     "nullable", "strict", "name"});

template <size_t kSize>
bool is_one_of(std::string_view key, const std::array<std::string_view, kSize>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

const Json& anything() {
  static const Json kAnything{Json::Object{}};
  return kAnything;
}

bool says_nothing(const Json& schema) {
  const Json::Object& members = *schema.as_object();
  return std::all_of(members.begin(), members.end(),
                     [](const auto& member) { return is_one_of(member.first, kRemarks); });
}

int64_t count_values(const Json& json) {
  int64_t count = 1;
  if (json.is_array()) {
    for (const Json& element : *json.as_array()) count += count_values(element);
  } else if (json.is_object()) {
    for (const auto& [key, value] : *json.as_object()) count += count_values(value);
  }
  return count;
}

/// One step of a JSON pointer. // RFC 6901, and percent signs as in a URL
std::string unescaped(std::string_view step) {
  std::string text;
  for (size_t i = 0; i < step.size(); ++i) {
    const auto hex = [&](size_t at) {
      return at < step.size() ? std::string_view("0123456789abcdef").find(step[at] | 0x20)
                              : std::string_view::npos;
    };
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      text += step[++i] == '0' ? '~' : '/';
    } else if (step[i] == '%' && hex(i + 1) < 16 && hex(i + 2) < 16) {
      text += static_cast<char>(hex(i + 1) * 16 + hex(i + 2));
      i += 2;
    } else {
      text += step[i];
    }
  }
  return text;
}

const Json* child(const Json& parent, const std::string& step) {
  const Json::Array* array = parent.as_array();
  if (array == nullptr) return parent.find(step);
  size_t index = 0;
  for (const char c : step) {
    if (c < '0' || c > '9' || index > array->size()) return nullptr;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return !step.empty() && index < array->size() ? &(*array)[index] : nullptr;
}

}  // namespace

Error schema_error(std::string_view path, std::string_view what) {
  return {ErrorCode::kUsage, fmt::format("the schema at {}: {}", formats::printable(path), what)};
}

const Json* SchemaResolver::keep(Json schema) {
  kept_.push_back(std::move(schema));
  return &kept_.back();
}

Result<std::vector<Place>> SchemaResolver::alternatives(const Place& schema) {
  Places found;
  QUIRE_TRY_VOID(add_alternatives(schema, 0, found));
  return found;
}

Result<void> SchemaResolver::add_alternatives(const Place& place, int32_t depth, Places& out) {
  if (const auto fixed = place.schema->as_bool()) {
    if (*fixed) out.push_back({&anything(), place.path});
    return {};
  }
  if (!place.schema->is_object()) {
    return schema_error(place.path, "a schema must be an object or a boolean");
  }
  if (depth > kMostDepth) {
    return schema_error(place.path, "more than 64 references and combinations follow each other");
  }
  bool combines = false;
  for (const auto& [key, value] : *place.schema->as_object()) {
    if (is_one_of(key, kRefused)) {
      return schema_error(place.path, fmt::format("{} is not supported", key));
    }
    combines |= is_one_of(key, kCombinations);
  }
  if (!combines) {
    out.push_back(says_nothing(*place.schema) ? Place{&anything(), place.path} : place);
    return {};
  }
  Json rest{Json::Object{}};
  for (const auto& [key, value] : *place.schema->as_object()) {
    if (!is_one_of(key, kCombinations) && !is_one_of(key, kRemarks)) rest.set(key, value);
  }
  Places current = {{says_nothing(rest) ? &anything() : keep(std::move(rest)), place.path}};
  if (const Json* reference = place.schema->find("$ref")) {
    if (!reference->is_string()) return schema_error(place.path, "$ref must be a string");
    const std::string& target = *reference->as_string();
    QUIRE_TRY(const Json* schema, follow(target, place.path));
    if (!open_references_.insert(target).second) {
      return schema_error(place.path, fmt::format("{} refers to itself with nothing in between",
                                                  formats::printable(target)));
    }
    const auto restricted = restrict_to(current, {schema, target}, depth);
    open_references_.erase(target);
    QUIRE_TRY_VOID(restricted);
  }
  if (const Json* all = place.schema->find("allOf")) {
    if (!all->is_array()) return schema_error(place.path, "allOf must be an array");
    for (size_t i = 0; i < all->as_array()->size(); ++i) {
      const std::string path = fmt::format("{}/allOf/{}", place.path, i);
      QUIRE_TRY_VOID(restrict_to(current, {&(*all->as_array())[i], path}, depth));
    }
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* any = place.schema->find(key);
    if (any == nullptr) continue;
    QUIRE_TRY_VOID(restrict_to_any(current, {any, place.path + "/" + key}, depth));
  }
  out.insert(out.end(), current.begin(), current.end());
  return {};
}

Result<void> SchemaResolver::restrict_to(Places& current, const Place& also, int32_t depth) {
  Places others;
  QUIRE_TRY_VOID(add_alternatives(also, depth + 1, others));
  return multiply(current, others);
}

Result<void> SchemaResolver::restrict_to_any(Places& current, const Place& list, int32_t depth) {
  if (!list.schema->is_array() || list.schema->as_array()->empty()) {
    return schema_error(list.path, "must be an array of at least one schema");
  }
  Places others;
  for (size_t i = 0; i < list.schema->as_array()->size(); ++i) {
    const Place branch{&(*list.schema->as_array())[i], fmt::format("{}/{}", list.path, i)};
    QUIRE_TRY_VOID(add_alternatives(branch, depth + 1, others));
    if (others.size() > kMostAlternatives) break;
  }
  return multiply(current, others);
}

/// Each of `current` together with each of `others`.
Result<void> SchemaResolver::multiply(Places& current, const Places& others) {
  if (others.size() * current.size() > kMostAlternatives) {
    const std::string path = current.empty() ? "#" : current.front().path;
    return schema_error(path, "its combinations give more than 4,096 alternatives");
  }
  Places products;
  for (const Place& a : current) {
    for (const Place& b : others) {
      QUIRE_TRY(std::optional<Place> both, merged(a, b));
      if (both) products.push_back(*std::move(both));
    }
  }
  current = std::move(products);
  return {};
}

Result<std::optional<Place>> SchemaResolver::merged(const Place& a, const Place& b) {
  if (a.schema == &anything() || a.schema == b.schema) return std::optional(b);
  if (b.schema == &anything()) return std::optional(a);
  QUIRE_TRY(std::optional<Json> schema, merge_schemas(*a.schema, *b.schema, b.path));
  if (!schema) return std::optional<Place>();
  merged_values_ += count_values(*schema);
  if (merged_values_ > kMostMergedValues) {
    return schema_error(a.path, "its combinations are too large to be written out");
  }
  return std::optional(Place{keep(*std::move(schema)), b.path});
}

Result<const Json*> SchemaResolver::follow(std::string_view reference,
                                           std::string_view path) const {
  const auto unknown = [&] {
    return schema_error(path, fmt::format("$ref {} names nothing in this document; only references "
                                          "such as #/$defs/NAME are followed",
                                          formats::printable(reference)));
  };
  if (!reference.starts_with('#')) return unknown();
  reference.remove_prefix(1);
  const Json* at = &document_;
  while (!reference.empty()) {
    if (reference[0] != '/') return unknown();
    reference.remove_prefix(1);
    const std::string_view step = reference.substr(0, reference.find('/'));
    at = child(*at, unescaped(step));
    if (at == nullptr) return unknown();
    reference.remove_prefix(step.size());
  }
  return at;
}

}  // namespace quire::engine::grammar
