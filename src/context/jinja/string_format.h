// string_format.h: Python's str.format, for replacement fields without a format specification.
//
// {} {0} {name} {name.attribute} {name[key]}, !s and !r, {{ and }}. A specification ("{:>8}") is an
// error that says so. A function without state; it spends the runtime's budget.
#pragma once
#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

Result<Value> format_string(Runtime& runtime, const Text& format, const Arguments& arguments);

}  // namespace quire::context::jinja
