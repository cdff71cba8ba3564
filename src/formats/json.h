// json.h: a JSON document as a value: what the parsers of formats, context and cli exchange.
//
// Wraps simdjson for reading (strict RFC 8259, UTF-8 validated, nesting at most 128 deep) and
// writes compact or indented text that reads back to the same value. Objects keep the order of
// their members, since chat templates print them in it; of duplicate keys the last wins, as in
// Python. A value type without shared state: use one from one thread at a time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace quire::formats {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<int64_t>(value)) {}
  Json(int64_t value) : value_(value) {}
  Json(uint64_t value);  // beyond int64 it becomes a double
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  /// Parses one document. `what` names it in the error sentence ("config.json of DIR").
  static Result<Json> parse(std::string_view text, std::string_view what);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  /// The content, if it has that type. as_double() also converts integers.
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int() const;
  std::optional<double> as_double() const;
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  Array* as_array() { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  Object* as_object() { return std::get_if<Object>(&value_); }

  /// The member of an object, or nullptr if this is no object or has no such member.
  const Json* find(std::string_view key) const;

  /// Sets or appends a member; a null becomes an object first. Requires null or an object.
  Json& set(std::string_view key, Json value);
  /// Appends an element; a null becomes an array first. Requires null or an array.
  Json& push_back(Json value);

  /// Compact for indent < 0, else indented by that many spaces. NaN and infinities print as null.
  std::string dump(int indent = -1) const;

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace quire::formats
