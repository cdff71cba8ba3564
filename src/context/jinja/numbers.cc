#include "context/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/checked_math.h"
#include "context/jinja/print.h"
#include "context/jinja/unicode.h"

namespace quire::context::jinja {
namespace {

bool is_digit_char(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(leading_space_bytes(text));
  return text.substr(0, length_without_trailing_space(text));
}

/// Without the underscores that Python allows between digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i - 1] == '.' ||
               text[i + 1] == '.') {
      return std::nullopt;
    }
  }
  return out;
}

int digit_value(char c) {
  if (is_digit_char(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/// Drops "0x", "0o" or "0b" where the base allows it; settles base 0.
int64_t take_prefix(std::string& digits, int64_t base) {
  const char mark =
      digits.size() > 1 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == 0 || base == marked)) {
    digits.erase(0, 2);
    if (!digits.empty() && digits[0] == '_') digits.erase(0, 1);
    return marked;
  }
  return base == 0 ? 10 : base;
}

}  // namespace

std::optional<double> parse_float(std::string_view text) {
  auto cleaned = without_underscores(trimmed(text));
  if (!cleaned || cleaned->empty()) return std::nullopt;
  const bool has_sign = cleaned->front() == '+' || cleaned->front() == '-';
  const std::string_view body = std::string_view(*cleaned).substr(has_sign ? 1 : 0);
  if (body.empty() || body.front() == '+' || body.front() == '-' ||
      body.find('(') != std::string_view::npos) {
    return std::nullopt;
  }
  double number = 0;
  const auto parsed = std::from_chars(body.data(), body.data() + body.size(), number);
  if (parsed.ptr != body.data() + body.size()) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) {
    // from_chars does not say which way: a negative exponent underflows, anything else overflows.
    const size_t exponent = body.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && body.substr(exponent + 1, 1) == "-";
    number = tiny ? 0.0 : HUGE_VAL;
  } else if (parsed.ec != std::errc()) {
    return std::nullopt;
  }
  return cleaned->front() == '-' ? -number : number;
}

Result<std::optional<int64_t>> parse_integer(std::string_view text, int64_t base) {
  const std::optional<int64_t> none;
  std::string digits(trimmed(text));
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative || (!digits.empty() && digits[0] == '+')) digits.erase(0, 1);
  if (base != 0 && (base < 2 || base > 36)) return none;
  base = take_prefix(digits, base);
  const auto cleaned = without_underscores(digits);
  if (!cleaned || cleaned->empty()) return none;
  int64_t number = 0;
  bool fits = true;
  for (const char c : *cleaned) {
    if (digit_value(c) >= base) return none;
    const auto product = checked_mul(number, base);
    const auto sum = product ? checked_add<int64_t>(*product, digit_value(c)) : std::nullopt;
    fits = fits && sum.has_value();
    number = sum.value_or(0);
  }
  if (!fits) return Error{ErrorCode::kUnsupported, "an integer grows beyond 64 bits"};
  return std::optional(negative ? -number : number);
}

Result<std::optional<int64_t>> truncate_to_integer(double number) {
  if (std::isnan(number)) return std::optional<int64_t>();
  if (std::fabs(number) >= 9.2e18) {
    return Error{ErrorCode::kUnsupported, "a float is too large to become an integer"};
  }
  return std::optional(static_cast<int64_t>(number));
}

double round_float(double number, int digits) {
  if (!std::isfinite(number)) return number;
  if (digits < 0) {
    const double unit = std::pow(10.0, -digits);
    return std::nearbyint(number / unit) * unit;
  }
  // Printing rounds the exact binary value, which is what Python's round does.
  const std::string text = float_fixed(number, digits);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace quire::context::jinja
