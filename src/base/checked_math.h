// checked_math.h: arithmetic on numbers that came from a file or a socket.
//
// Every function gives nothing instead of wrapping around. Use before any allocation or index.
#pragma once
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace quire {

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The smallest multiple of `alignment` that is not below `value`. Requires alignment > 0.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_align_up(T value, T alignment) {
  const T rest = value % alignment;
  if (rest == 0) return value;
  return checked_add<T>(value, alignment - rest);
}

/// `value` as a To, if it is one.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr std::optional<To> checked_cast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// Whether [offset, offset + length) lies inside [0, size).
[[nodiscard]] constexpr bool range_fits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace quire
