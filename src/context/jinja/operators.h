// operators.h: Python's operators on values.
//
// Each fails where Python raises, in one sentence: unsupported types, division by zero, an
// undefined operand. Integers are 64-bit: a result beyond that is an error, never a wrong number.
// Functions without state; they spend the runtime's budget.
#pragma once
#include <string_view>

#include "base/result.h"
#include "context/jinja/ast.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

Result<Value> arithmetic(Runtime& runtime, ArithmeticOp op, const Value& left, const Value& right);
Result<Value> negative(const Value& value);
Result<Value> positive(const Value& value);

Result<bool> equals(Runtime& runtime, const Value& left, const Value& right);
/// left < right; fails for what has no order.
Result<bool> less_than(Runtime& runtime, const Value& left, const Value& right);
Result<bool> compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);
/// item in container.
Result<bool> contains(Runtime& runtime, Value container, const Value& item);

/// Python's "format % arguments".
Result<Value> percent_format(Runtime& runtime, const Text& format, const Value& arguments);

/// Fails with an undefined value's own message.
Result<void> require_defined(const Value& value);

}  // namespace quire::context::jinja
