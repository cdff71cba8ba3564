// tests.h: what stands behind "is": x is defined, x is string, x is divisibleby 3.
//
// Jinja's built-in tests; a name it does not know is an error. Functions without state.
#pragma once
#include <string_view>

#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

Result<bool> apply_test(Runtime& runtime, std::string_view name, const Value& value,
                        const Arguments& arguments);

}  // namespace quire::context::jinja
