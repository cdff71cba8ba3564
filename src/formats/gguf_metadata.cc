#include "formats/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <variant>

#include "base/check.h"
#include "base/checked_math.h"
#include "formats/byte_reader.h"
#include "formats/printable.h"

namespace quire::formats {
namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A scalar widened to the largest type of its kind; monostate for strings and arrays.
using Wide = std::variant<std::monostate, bool, uint64_t, int64_t, double>;

/// The `index`-th of packed values of one scalar type.
Wide wide_at(GgufType type, std::span<const std::byte> bytes, uint64_t index) {
  switch (type) {
    case GgufType::kUint8:
      return static_cast<uint64_t>(packed_at<uint8_t>(bytes, index));
    case GgufType::kInt8:
      return static_cast<int64_t>(packed_at<int8_t>(bytes, index));
    case GgufType::kUint16:
      return static_cast<uint64_t>(packed_at<uint16_t>(bytes, index));
    case GgufType::kInt16:
      return static_cast<int64_t>(packed_at<int16_t>(bytes, index));
    case GgufType::kUint32:
      return static_cast<uint64_t>(packed_at<uint32_t>(bytes, index));
    case GgufType::kInt32:
      return static_cast<int64_t>(packed_at<int32_t>(bytes, index));
    case GgufType::kUint64:
      return packed_at<uint64_t>(bytes, index);
    case GgufType::kInt64:
      return packed_at<int64_t>(bytes, index);
    case GgufType::kFloat32:
      return static_cast<double>(packed_at<float>(bytes, index));
    case GgufType::kFloat64:
      return packed_at<double>(bytes, index);
    case GgufType::kBool:
      return packed_at<uint8_t>(bytes, index) != 0;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return std::monostate();
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::kFloat32:
    case GgufType::kFloat64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      return false;
    default:
      return true;
  }
}

bool is_float(GgufType type) {
  return type == GgufType::kFloat32 || type == GgufType::kFloat64;
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
std::string wanted() {
  if constexpr (std::is_same_v<T, bool>) return "a bool";
  if constexpr (std::is_same_v<T, std::string_view>) return "a string";
  if constexpr (std::is_floating_point_v<T>) return "a number";
  if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) return "an unsigned integer";
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) return "an integer";
  if constexpr (std::is_same_v<T, std::vector<bool>>) return "an array of bools";
  if constexpr (std::is_same_v<T, std::vector<int32_t>>) return "an array of integers";
  if constexpr (std::is_same_v<T, std::vector<float>>) return "an array of floats";
  if constexpr (std::is_same_v<T, std::vector<std::string_view>>) return "an array of strings";
}

template <class T>
Error wrong_type(const GgufValue& value) {
  return {ErrorCode::kBadFile, fmt::format("key {} is {}, expected {}", printable(value.key),
                                           describe(value), wanted<T>())};
}

template <class T>
Error does_not_fit(const GgufValue& value, const std::string& number) {
  const std::string_view kind = std::is_floating_point_v<T> ? "a float"
                                : std::is_unsigned_v<T>     ? "an unsigned integer"
                                                            : "a signed integer";
  return {ErrorCode::kBadFile, fmt::format("key {} holds {}, which does not fit into {} of {} bits",
                                           printable(value.key), number, kind, sizeof(T) * 8)};
}

/// One number of `value` as a T. The type of `wide` may still be wrong.
template <class T>
Result<T> narrow(const GgufValue& value, const Wide& wide) {
  if constexpr (std::is_same_v<T, bool>) {
    if (const bool* b = std::get_if<bool>(&wide)) return *b;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (const auto* d = std::get_if<double>(&wide)) {
      const bool fits = !std::isfinite(*d) || std::abs(*d) <= std::numeric_limits<T>::max();
      if (!fits) return does_not_fit<T>(value, fmt::to_string(*d));
      return static_cast<T>(*d);
    }
    if (const auto* u = std::get_if<uint64_t>(&wide)) return static_cast<T>(*u);
    if (const auto* i = std::get_if<int64_t>(&wide)) return static_cast<T>(*i);
  } else {
    if (const auto* u = std::get_if<uint64_t>(&wide)) {
      if (const auto fits = checked_cast<T>(*u)) return *fits;
      return does_not_fit<T>(value, fmt::to_string(*u));
    }
    if (const auto* i = std::get_if<int64_t>(&wide)) {
      if (const auto fits = checked_cast<T>(*i)) return *fits;
      return does_not_fit<T>(value, fmt::to_string(*i));
    }
  }
  return wrong_type<T>(value);
}

template <class T>
bool elements_convert_to(GgufType type) {
  if constexpr (std::is_same_v<T, bool>) return type == GgufType::kBool;
  if constexpr (std::is_same_v<T, int32_t>) return is_integer(type);
  if constexpr (std::is_same_v<T, float>) return is_float(type);
  if constexpr (std::is_same_v<T, std::string_view>) return type == GgufType::kString;
}

template <class T>
Result<std::vector<T>> convert_array(const GgufValue& value) {
  // An empty array of any type converts: some writers give every empty array the same type.
  const bool right = value.type == GgufType::kArray &&
                     (value.count == 0 || elements_convert_to<T>(value.element_type));
  if (!right) return wrong_type<std::vector<T>>(value);
  std::vector<T> out;
  out.reserve(value.count);  // at most 4 times the bytes the elements take in the file
  if constexpr (std::is_same_v<T, std::string_view>) {
    ByteReader reader(value.payload);
    for (uint64_t i = 0; i < value.count; ++i) {
      const auto length = reader.read<uint64_t>();
      const auto text = length ? reader.take(*length) : std::nullopt;
      QUIRE_CHECK(text.has_value(), "strings were checked when the file was opened");
      out.push_back(as_text(*text));
    }
  } else {
    for (uint64_t i = 0; i < value.count; ++i) {
      QUIRE_TRY(const T element, narrow<T>(value, wide_at(value.element_type, value.payload, i)));
      out.push_back(element);
    }
  }
  return out;
}

}  // namespace

std::string_view name(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
      return "u8";
    case GgufType::kInt8:
      return "i8";
    case GgufType::kUint16:
      return "u16";
    case GgufType::kInt16:
      return "i16";
    case GgufType::kUint32:
      return "u32";
    case GgufType::kInt32:
      return "i32";
    case GgufType::kFloat32:
      return "f32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kUint64:
      return "u64";
    case GgufType::kInt64:
      return "i64";
    case GgufType::kFloat64:
      return "f64";
  }
  QUIRE_CHECK(false, "the type was checked when the file was opened");
}

std::string describe(const GgufValue& value) {
  if (value.type == GgufType::kArray) {
    return fmt::format("an array of {} {}{}", value.count, name(value.element_type),
                       value.count == 1 ? "" : "s");
  }
  const std::string_view type = name(value.type);
  const bool vowel = type[0] == 'i' || type[0] == 'f';  // as spoken: an i32, an f32, a u32
  return fmt::format("{} {}", vowel ? "an" : "a", type);
}

Result<GgufMetadata> GgufMetadata::create(std::vector<GgufValue> values) {
  GgufMetadata metadata;
  metadata.values_ = std::move(values);
  auto& index = metadata.by_key_;
  index.resize(metadata.values_.size());
  std::iota(index.begin(), index.end(), 0u);
  const auto key_of = [&](uint32_t i) { return metadata.values_[i].key; };
  std::ranges::sort(index, {}, key_of);
  const auto twice = std::ranges::adjacent_find(index, {}, key_of);
  if (twice != index.end()) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("key {} stands twice, so which value is meant is unknown",
                             printable(key_of(*twice)))};
  }
  return metadata;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto key_of = [&](uint32_t i) { return values_[i].key; };
  const auto found = std::ranges::lower_bound(by_key_, key, {}, key_of);
  if (found == by_key_.end() || key_of(*found) != key) return nullptr;
  return &values_[*found];
}

template <class T>
Result<T> convert(const GgufValue& value) {
  if constexpr (IsVector<T>::value) {
    return convert_array<typename T::value_type>(value);
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    if (value.type != GgufType::kString) return wrong_type<T>(value);
    return as_text(value.payload);
  } else {
    return narrow<T>(value, wide_at(value.type, value.payload, 0));
  }
}

template <class T>
Result<std::optional<T>> GgufMetadata::get(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<T>();
  QUIRE_TRY(T converted, convert<T>(*value));
  return std::optional<T>(std::move(converted));
}

template <class T>
Result<T> GgufMetadata::require(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return Error{ErrorCode::kBadFile, fmt::format("the file has no key {}", printable(key))};
  }
  return convert<T>(*value);
}

#define QUIRE_INSTANTIATE(T)                                                      \
  template Result<T> convert<T>(const GgufValue&);                                \
  template Result<std::optional<T>> GgufMetadata::get<T>(std::string_view) const; \
  template Result<T> GgufMetadata::require<T>(std::string_view) const;
QUIRE_INSTANTIATE(bool)
QUIRE_INSTANTIATE(int32_t)
QUIRE_INSTANTIATE(uint32_t)
QUIRE_INSTANTIATE(int64_t)
QUIRE_INSTANTIATE(uint64_t)
QUIRE_INSTANTIATE(float)
QUIRE_INSTANTIATE(double)
QUIRE_INSTANTIATE(std::string_view)
QUIRE_INSTANTIATE(std::vector<bool>)
QUIRE_INSTANTIATE(std::vector<int32_t>)
QUIRE_INSTANTIATE(std::vector<float>)
QUIRE_INSTANTIATE(std::vector<std::string_view>)
#undef QUIRE_INSTANTIATE

}  // namespace quire::formats
