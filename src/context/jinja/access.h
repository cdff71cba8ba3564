// access.h: object.name, object[key] and object[a:b:c] as Jinja's sandbox resolves them.
//
// A missing attribute or item is an undefined value, not an error; only an undefined object fails.
// A dot finds Python's methods before dict keys, a subscript the other way round. What the sandbox
// denies (dunder names, methods that change a list or dict) is an undefined value that says so.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

Result<Value> get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Result<Value> get_item(Runtime& runtime, const Value& object, const Value& key);
/// Absent parts are None values.
Result<Value> get_slice(Runtime& runtime, const Value& object, const Value& start,
                        const Value& stop, const Value& step);
/// "a.b.0": what the filters call an attribute.
Result<Value> get_path(Runtime& runtime, Value object, const Value& path);

/// A built-in function or a method bound to its object.
class Function : public Object {
 public:
  using Body = std::function<Result<Value>(Runtime&, const Arguments&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  std::string repr() const override { return "<function " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) const {
    return body_(runtime, arguments);
  }

 private:
  std::string name_;
  Body body_;
};

}  // namespace quire::context::jinja
