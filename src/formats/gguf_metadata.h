// gguf_metadata.h: the key-value pairs of a GGUF file, read through getters that check types.
//
// Values are views into the mapped file: strings and arrays of strings are never copied. Every
// value was bounds-checked when the file was opened, so no getter can read outside it. A getter
// never reinterprets: integers convert between widths when the value fits, integers and f64 convert
// to a float type, everything else is an error that names the key and what was found. Immutable;
// any thread. Valid as long as the GgufFile (or ModelFiles) that returned it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::formats {

/// The numbers are those of the GGUF specification.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// "u32", "string", "array".
std::string_view name(GgufType type);

struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::kUint8;
  GgufType element_type = GgufType::kUint8;  // of an array; else the same as type
  uint64_t count = 1;                        // elements of an array; else 1
  // The raw content: a string's characters, an array's elements, a scalar's little-endian bytes.
  std::span<const std::byte> payload;
};

/// "a string", "an array of 49152 strings", "an i32".
std::string describe(const GgufValue& value);

class GgufMetadata {
 public:
  /// Takes checked values. Refuses a key that occurs twice.
  static Result<GgufMetadata> create(std::vector<GgufValue> values);

  /// In the order of the file.
  std::span<const GgufValue> values() const { return values_; }

  /// The value of that key, or nullptr. Takes O(log n).
  const GgufValue* find(std::string_view key) const;

  /// The value of that key as a T, nothing if the file has no such key, an error if it is no T.
  /// T is bool, int32_t, uint32_t, int64_t, uint64_t, float, double, std::string_view, or a
  /// std::vector of bool, int32_t (from any integer type), float (from f32, f64), std::string_view.
  template <class T>
  Result<std::optional<T>> get(std::string_view key) const;

  /// The same, and absence is an error too.
  template <class T>
  Result<T> require(std::string_view key) const;

 private:
  std::vector<GgufValue> values_;
  std::vector<uint32_t> by_key_;  // indices into values_, ascending by key
};

/// The same conversions for a value at hand.
template <class T>
Result<T> convert(const GgufValue& value);

}  // namespace quire::formats
