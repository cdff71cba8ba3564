// methods.h: the methods of Python's str, dict, list and tuple.
//
// Those that change their object do not exist here (the sandbox denies them). Functions without
// state; they spend the runtime's budget.
#pragma once
#include <string_view>

#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

bool has_method(const Value& self, std::string_view name);
/// append, update, pop, ...: a method of this object's type that would change it.
bool changes_its_object(const Value& self, std::string_view name);
/// Requires has_method(self, name).
Result<Value> call_method(Runtime& runtime, const Value& self, std::string_view name,
                          const Arguments& arguments);

}  // namespace quire::context::jinja
