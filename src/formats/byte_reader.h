// byte_reader.h: reads little-endian values off the front of untrusted bytes.
//
// Every function gives nothing instead of reading past the end, and then moves nothing.
// A cursor: use one from one thread.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "base/checked_math.h"

namespace quire::formats {

static_assert(std::endian::native == std::endian::little, "model files are mapped, not converted");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <class T>
  [[nodiscard]] std::optional<T> read() {
    static_assert(std::is_arithmetic_v<T>);
    const auto raw = take(sizeof(T));
    if (!raw) return std::nullopt;
    T value;
    std::memcpy(&value, raw->data(), sizeof(T));
    return value;
  }

  /// The next `length` bytes.
  [[nodiscard]] std::optional<std::span<const std::byte>> take(uint64_t length) {
    if (!range_fits(position_, length, bytes_.size())) return std::nullopt;
    const auto taken = bytes_.subspan(position_, length);
    position_ += length;
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

/// The `index`-th T of packed, unaligned values. Requires the index to be inside.
template <class T>
T packed_at(std::span<const std::byte> bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.subspan(index * sizeof(T), sizeof(T)).data(), sizeof(T));
  return value;
}

}  // namespace quire::formats
