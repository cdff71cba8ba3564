// naive_schema.h: whether a value satisfies a JSON schema, written plainly, as a twin of the
// grammar.
//
// Shares no code with src/engine/grammar. oneOf counts as anyOf, as the grammar takes it.
#pragma once
#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "base/utf8.h"
#include "formats/json.h"

namespace quire::engine {

class NaiveSchema {
 public:
  explicit NaiveSchema(const formats::Json& document) : document_(document) {}

  bool accepts(const formats::Json& value) const { return accepts(document_, value); }

 private:
  using Json = formats::Json;

  bool accepts(const Json& schema, const Json& value) const {
    if (schema.is_bool()) return *schema.as_bool();
    for (const auto& [keyword, argument] : *schema.as_object()) {
      if (!keyword_accepts(schema, keyword, argument, value)) return false;
    }
    return true;
  }

  static bool is_whole(const Json& value) {
    return value.is_number() && std::floor(*value.as_double()) == *value.as_double();
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "number") return value.is_number();
    if (type == "integer") return is_whole(value);
    if (type == "boolean") return value.is_bool();
    return type == "null" && value.is_null();
  }

  static bool equal(const Json& a, const Json& b) {
    if (a.is_number() && b.is_number()) return *a.as_double() == *b.as_double();
    return a == b;
  }

  const Json& follow(std::string path) const {
    const Json* at = &document_;
    path.erase(0, 1);
    while (!path.empty()) {
      path.erase(0, 1);
      const std::string step = path.substr(0, path.find('/'));
      path.erase(0, step.size());
      at = at->find(step);
    }
    return *at;
  }

  bool keyword_accepts(const Json& schema, const std::string& keyword, const Json& argument,
                       const Json& value) const {
    const auto all = [&](const auto& list, const auto& test) {
      return std::all_of(list.begin(), list.end(), test);
    };
    if (keyword == "$ref") return accepts(follow(*argument.as_string()), value);
    if (keyword == "allOf") {
      return all(*argument.as_array(), [&](const Json& one) { return accepts(one, value); });
    }
    if (keyword == "anyOf" || keyword == "oneOf") {
      return std::any_of(argument.as_array()->begin(), argument.as_array()->end(),
                         [&](const Json& one) { return accepts(one, value); });
    }
    if (keyword == "enum") {
      return std::any_of(argument.as_array()->begin(), argument.as_array()->end(),
                         [&](const Json& one) { return equal(one, value); });
    }
    if (keyword == "const") return equal(argument, value);
    if (keyword == "type") {
      if (argument.is_string()) return has_type(value, *argument.as_string());
      return std::any_of(argument.as_array()->begin(), argument.as_array()->end(),
                         [&](const Json& one) { return has_type(value, *one.as_string()); });
    }
    if (value.is_object()) return object_accepts(schema, keyword, argument, value);
    if (value.is_array()) return array_accepts(schema, keyword, argument, value);
    if (value.is_string()) return string_accepts(keyword, argument, *value.as_string());
    if (value.is_number()) return number_accepts(keyword, argument, *value.as_double());
    return true;
  }

  bool object_accepts(const Json& schema, const std::string& keyword, const Json& argument,
                      const Json& value) const {
    const auto& members = *value.as_object();
    if (keyword == "required") {
      return std::all_of(
          argument.as_array()->begin(), argument.as_array()->end(),
          [&](const Json& name) { return value.find(*name.as_string()) != nullptr; });
    }
    if (keyword == "properties") {
      return std::all_of(members.begin(), members.end(), [&](const Json::Member& member) {
        const Json* property = argument.find(member.first);
        return property == nullptr || accepts(*property, member.second);
      });
    }
    if (keyword == "additionalProperties") {
      const Json* properties = schema.find("properties");
      return std::all_of(members.begin(), members.end(), [&](const Json::Member& member) {
        const bool named = properties != nullptr && properties->find(member.first) != nullptr;
        return named || accepts(argument, member.second);
      });
    }
    if (keyword == "minProperties") return members.size() >= size_t(*argument.as_int());
    if (keyword == "maxProperties") return members.size() <= size_t(*argument.as_int());
    return true;
  }

  bool array_accepts(const Json& schema, const std::string& keyword, const Json& argument,
                     const Json& value) const {
    const auto& elements = *value.as_array();
    if (keyword == "minItems") return elements.size() >= size_t(*argument.as_int());
    if (keyword == "maxItems") return elements.size() <= size_t(*argument.as_int());
    const Json* prefix = schema.find("prefixItems");
    const size_t first = prefix == nullptr ? 0 : prefix->as_array()->size();
    for (size_t i = 0; i < elements.size(); ++i) {
      if (keyword == "items" && i >= first && !accepts(argument, elements[i])) return false;
      if (keyword == "prefixItems" && i < first && !accepts((*argument.as_array())[i], elements[i]))
        return false;
    }
    return true;
  }

  static bool string_accepts(const std::string& keyword, const Json& argument,
                             const std::string& value) {
    if (keyword == "minLength") return utf8_length(value) >= size_t(*argument.as_int());
    if (keyword == "maxLength") return utf8_length(value) <= size_t(*argument.as_int());
    if (keyword == "pattern") {
      return std::regex_search(value, std::regex(*argument.as_string(), std::regex::ECMAScript));
    }
    return true;
  }

  static bool number_accepts(const std::string& keyword, const Json& argument, double value) {
    if (!argument.is_number()) return true;
    const double bound = *argument.as_double();
    if (keyword == "minimum") return value >= bound;
    if (keyword == "maximum") return value <= bound;
    if (keyword == "exclusiveMinimum") return value > bound;
    if (keyword == "exclusiveMaximum") return value < bound;
    if (keyword == "multipleOf") return std::floor(value / bound) == value / bound;
    return true;
  }

  const Json& document_;
};

}  // namespace quire::engine
