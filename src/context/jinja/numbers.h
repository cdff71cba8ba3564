// numbers.h: Python's int(), float() and round() on values, as the filters of those names use them.
//
// Absence means that Python raises a ValueError or TypeError, which the filters turn into a
// default. Functions without state.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "context/jinja/value.h"

namespace quire::context::jinja {

/// float(text).
std::optional<double> parse_float(std::string_view text);
/// int(text, base), base 0 or 2 to 36; an error if it does not fit 64 bits.
Result<std::optional<int64_t>> parse_integer(std::string_view text, int64_t base);
/// int(number): towards zero; an error for an infinity or beyond 64 bits.
Result<std::optional<int64_t>> truncate_to_integer(double number);
/// round(number, digits): to even on exact ties. Requires |digits| <= 300.
double round_float(double number, int digits);

}  // namespace quire::context::jinja
