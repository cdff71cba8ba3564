#include "base/byte_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace quire {
namespace {

constexpr std::string_view kPrefixes = "kmgt";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// What a number with this (lower-case) unit is multiplied by.
std::optional<double> unit_factor(std::string_view unit) {
  if (unit.empty() || unit == "b") return 1.0;
  const size_t power = kPrefixes.find(unit.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  const auto exponent = static_cast<double>(power + 1);
  if (rest.empty() || rest == "ib") return std::pow(1024.0, exponent);
  if (rest == "b") return std::pow(1000.0, exponent);
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> parse_byte_size(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0.0;
  const char* end = text.data() + digits;
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (digits == 0 || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  std::string_view unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const auto factor = unit_factor(lower_case(unit));
  if (!factor) return std::nullopt;
  const double bytes = number * *factor;
  if (!(bytes < 0x1p63)) return std::nullopt;
  if (*factor == 1.0 && bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.5 and above would print as 1024.
  while (std::abs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string format_count(int64_t count) {
  const std::string digits = fmt::format("{}", count);
  const size_t sign = count < 0 ? 1 : 0;
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

}  // namespace quire
