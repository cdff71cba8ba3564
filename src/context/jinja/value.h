// value.h: what a template computes with: Python's values, as far as chat templates see them.
//
// Values are immutable and cheap to copy (shared content); only a namespace changes, and it lives
// until its render ends. Every value carries the origin of the data it came from. Nesting is
// bounded, so recursive functions over values and their destruction cannot exhaust the stack, but
// one value may be shared many times inside another: whoever walks values spends from a Budget. Use
// one value graph from one thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "context/jinja/text.h"

namespace quire::context::jinja {

class Value;
class Dict;
class Object;
struct Sequence;
using SequencePtr = std::shared_ptr<Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using ObjectPtr = std::shared_ptr<Object>;

/// Jinja's Undefined: prints as nothing, fails with `message` when used otherwise.
struct Undefined {
  std::string message;
};
struct None {};

class Value {
 public:
  Value() : data_(None{}) {}
  Value(None) : data_(None{}) {}
  explicit Value(bool value, Origin origin = kTemplateOrigin) : data_(value), origin_(origin) {}
  explicit Value(int64_t value, Origin origin = kTemplateOrigin) : data_(value), origin_(origin) {}
  explicit Value(double value, Origin origin = kTemplateOrigin) : data_(value), origin_(origin) {}
  explicit Value(Text text)
      : data_(std::make_shared<const Text>(std::move(text))), origin_(as_text()->origin()) {}
  explicit Value(TextPtr text) : data_(std::move(text)), origin_(as_text()->origin()) {}
  explicit Value(SequencePtr sequence, Origin origin = kTemplateOrigin)
      : data_(std::move(sequence)), origin_(origin) {}
  explicit Value(DictPtr dict, Origin origin = kTemplateOrigin)
      : data_(std::move(dict)), origin_(origin) {}
  explicit Value(ObjectPtr object) : data_(std::move(object)) {}
  static Value undefined(std::string message);
  static Value none(Origin origin);
  static Value string(std::string bytes, Origin origin = kTemplateOrigin) {
    return Value(Text(std::move(bytes), origin));
  }

  bool is_undefined() const { return std::holds_alternative<UndefinedPtr>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }  // not for a bool
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }  // as Python: bool is one
  bool is_string() const { return std::holds_alternative<TextPtr>(data_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }

  /// Bools and ints as an integer, as Python's int operations take them.
  std::optional<int64_t> as_integer() const;
  std::optional<double> as_double() const;  // any number
  const Text* as_text() const;
  const Sequence* as_sequence() const;
  Sequence* as_sequence();
  const Dict* as_dict() const;
  Object* as_object() const;
  ObjectPtr object_ptr() const;
  const Undefined* as_undefined() const;

  Origin origin() const { return origin_; }
  bool truthy() const;
  /// "str", "list", "Undefined": as Python's errors name it.
  std::string_view type_name() const;
  /// 0 for what holds no other values.
  int32_t depth() const;
  /// Python's `is`.
  bool same_as(const Value& other) const;

 private:
  using UndefinedPtr = std::shared_ptr<const Undefined>;
  std::variant<None, UndefinedPtr, bool, int64_t, double, TextPtr, SequencePtr, DictPtr, ObjectPtr>
      data_;
  Origin origin_ = kTemplateOrigin;
};

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kRange,
  kGenerator,
  kDictKeys,
  kDictValues,
  kDictItems
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int32_t depth = 1;
  size_t consumed = 0;                                      // of a generator
  int64_t range_start = 0, range_stop = 0, range_step = 1;  // of a range, for repr

  bool is_generator() const { return kind == SequenceKind::kGenerator; }
  /// Lists, tuples and ranges can be indexed.
  bool is_indexable() const { return kind <= SequenceKind::kRange; }
};

/// Keys in order of insertion. Keys compare as in Python: 1, 1.0 and true are one key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  /// Replaces or appends. Requires a hashable key.
  void set(Value key, Value value);
  const Value* find(std::string_view key) const;
  /// Nothing also for an unhashable key.
  const Value* find(const Value& key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int32_t depth() const { return depth_; }

 private:
  std::optional<size_t> index_of(const Value& key) const;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // by canonical key, once there are many
  int32_t depth_ = 1;
};

/// Appends text equal for equal keys and different otherwise; false if the value is not hashable.
bool append_canonical_key(std::string& out, const Value& key);

/// Anything else a name can stand for: namespaces, loops, macros, functions.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::string repr() const = 0;
  virtual bool is_callable() const { return false; }
  /// An attribute, or nothing.
  virtual Result<std::optional<Value>> attribute(std::string_view) {
    return std::optional<Value>();
  }
  /// Lets go of every other value: breaks cycles when a render ends.
  virtual void drop_references() {}
};

/// namespace(...): the one mutable value.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::string repr() const override { return "<Namespace>"; }
  Result<std::optional<Value>> attribute(std::string_view name) override;
  void set(std::string_view name, Value value) {
    attributes_.set(Value::string(std::string(name)), std::move(value));
  }
  void drop_references() override { attributes_ = {}; }
  const Dict& attributes() const { return attributes_; }

 private:
  Dict attributes_;
};

}  // namespace quire::context::jinja
