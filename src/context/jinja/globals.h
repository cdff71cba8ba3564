// globals.h: the functions every template finds: range, dict, namespace, raise_exception,
// strftime_now.
//
// raise_exception fails with the template's own message and ErrorCode::kUsage: the conversation,
// not the template, is at fault. Functions without state.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "context/jinja/runtime.h"

namespace quire::context::jinja {

/// The function of that name, if there is one.
std::optional<Value> find_global(std::string_view name);

/// C's strftime in English, for the date and time directives and their unpadded "%-d" forms.
std::string format_time(std::chrono::sys_seconds time, std::string_view format);

}  // namespace quire::context::jinja
