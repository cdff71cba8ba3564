// print.h: values as text, exactly as Python's str() and repr() print them.
//
// Text keeps its origins; brackets, quotes and numbers take the origin of the value they belong to.
// Functions without state; they spend the runtime's budget.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

/// Appends str(value): nothing for an undefined value.
Result<void> append_str(Runtime& runtime, Text& out, const Value& value);
/// Appends repr(value).
Result<void> append_repr(Runtime& runtime, Text& out, const Value& value);
/// str(value) as a text of its own.
Result<Text> to_text(Runtime& runtime, const Value& value);

/// repr(float): the shortest digits that read back to the same number.
std::string float_repr(double number);
/// `digits` after the point, correctly rounded, as '%.*f'.
std::string float_fixed(double number, int digits);
/// A quoted name in an error sentence: 'x'.
std::string quoted(std::string_view text);

}  // namespace quire::context::jinja
