#include "formats/gguf_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/checked_math.h"
#include "formats/ggml_type.h"

namespace quire::formats {
namespace {

constexpr uint64_t kAlignment = 32;  // what a file without general.alignment has
constexpr uint32_t kVersion = 3;

uint64_t padding_after(uint64_t bytes) {
  return (kAlignment - bytes % kAlignment) % kAlignment;
}

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

/// Type and count of an array's elements, which come before them.
std::string array_of(GgufType type, size_t count) {
  std::string out;
  put(out, static_cast<uint32_t>(type));
  put<uint64_t>(out, count);
  return out;
}

template <class T>
std::string one(T value) {
  std::string out;
  put(out, value);
  return out;
}

template <class T>
std::string numbers(GgufType type, std::span<const T> values) {
  std::string out = array_of(type, values.size());
  for (const T value : values) put(out, value);
  return out;
}

uint64_t bytes_of(std::span<const int64_t> shape, ElementType type) {
  std::optional<int64_t> elements = 1;
  for (const int64_t dim : shape) {
    QUIRE_CHECK(dim > 0, "a dimension is positive");
    if (elements) elements = checked_mul<int64_t>(*elements, dim);
  }
  const bool whole = !shape.empty() && shape.back() % info(type).block_elements == 0;
  const auto bytes =
      elements && whole ? stored_bytes(type, static_cast<uint64_t>(*elements)) : std::nullopt;
  QUIRE_CHECK(bytes.has_value(), "a tensor's rows are whole blocks");
  return *bytes;
}

}  // namespace

void GgufWriter::set(std::string_view key, GgufType type, std::string bytes) {
  QUIRE_CHECK(!key.empty() && file_ == nullptr, "keys are set before the file begins");
  const auto same = std::ranges::find(values_, key, &Value::key);
  if (same != values_.end()) {
    same->type = type;
    same->bytes = std::move(bytes);
  } else {
    values_.push_back({std::string(key), type, std::move(bytes)});
  }
}

void GgufWriter::set_u32(std::string_view key, uint32_t value) {
  set(key, GgufType::kUint32, one(value));
}
void GgufWriter::set_f32(std::string_view key, float value) {
  set(key, GgufType::kFloat32, one(value));
}
void GgufWriter::set_bool(std::string_view key, bool value) {
  set(key, GgufType::kBool, one(static_cast<uint8_t>(value)));
}
void GgufWriter::set_string(std::string_view key, std::string_view value) {
  std::string bytes;
  put_text(bytes, value);
  set(key, GgufType::kString, std::move(bytes));
}
void GgufWriter::set_strings(std::string_view key, std::span<const std::string> values) {
  std::string bytes = array_of(GgufType::kString, values.size());
  for (const std::string& value : values) put_text(bytes, value);
  set(key, GgufType::kArray, std::move(bytes));
}
void GgufWriter::set_u32s(std::string_view key, std::span<const uint32_t> values) {
  set(key, GgufType::kArray, numbers(GgufType::kUint32, values));
}
void GgufWriter::set_i32s(std::string_view key, std::span<const int32_t> values) {
  set(key, GgufType::kArray, numbers(GgufType::kInt32, values));
}
void GgufWriter::set_f32s(std::string_view key, std::span<const float> values) {
  set(key, GgufType::kArray, numbers(GgufType::kFloat32, values));
}
void GgufWriter::set_bools(std::string_view key, const std::vector<bool>& values) {
  std::string bytes = array_of(GgufType::kBool, values.size());
  for (const bool value : values) put(bytes, static_cast<uint8_t>(value));
  set(key, GgufType::kArray, std::move(bytes));
}

void GgufWriter::copy(const GgufValue& value) {
  std::string bytes;
  if (value.type == GgufType::kArray) bytes = array_of(value.element_type, value.count);
  if (value.type == GgufType::kString) put<uint64_t>(bytes, value.payload.size());
  bytes.append(reinterpret_cast<const char*>(value.payload.data()), value.payload.size());
  set(value.key, value.type, std::move(bytes));
}

void GgufWriter::add_tensor(std::string_view name, std::span<const int64_t> shape,
                            ElementType type) {
  QUIRE_CHECK(!name.empty() && file_ == nullptr, "tensors are declared before the file begins");
  tensors_.push_back({.name = std::string(name),
                      .shape = {shape.begin(), shape.end()},
                      .type = type,
                      .num_bytes = bytes_of(shape, type)});
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put(out, kVersion);
  put<uint64_t>(out, tensors_.size());
  put<uint64_t>(out, values_.size());
  for (const Value& value : values_) {
    put_text(out, value.key);
    put(out, static_cast<uint32_t>(value.type));
    out += value.bytes;
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      put(out, static_cast<uint64_t>(tensor.shape[i]));  // fastest first
    }
    put(out, ggml_type_of(tensor.type).id);
    put(out, offset);
    offset += tensor.num_bytes + padding_after(tensor.num_bytes);
  }
  out.append(padding_after(out.size()), '\0');
  return out;
}

uint64_t GgufWriter::file_bytes() const {
  uint64_t bytes = header().size();
  for (const Tensor& tensor : tensors_) bytes += tensor.num_bytes + padding_after(tensor.num_bytes);
  return bytes;
}

Result<void> GgufWriter::begin(NewFile& file) {
  QUIRE_CHECK(file_ == nullptr, "a file begins once");
  QUIRE_TRY_VOID(file.reserve(file_bytes()));
  const std::string bytes = header();
  QUIRE_TRY_VOID(file.append(std::as_bytes(std::span(bytes))));
  file_ = &file;
  return {};
}

Result<void> GgufWriter::append(std::span<const std::byte> bytes) {
  QUIRE_CHECK(file_ != nullptr && current_ < tensors_.size(), "a tensor was declared for these");
  const uint64_t size = tensors_[current_].num_bytes;
  QUIRE_CHECK(bytes.size() <= size - written_, "a tensor's bytes end where it was declared to end");
  QUIRE_TRY_VOID(file_->append(bytes));
  written_ += bytes.size();
  if (written_ < size) return {};
  ++current_;
  written_ = 0;
  constexpr std::array<std::byte, kAlignment> kZeros{};
  return file_->append(std::span(kZeros).first(padding_after(size)));
}

void GgufWriter::finish() const {
  QUIRE_CHECK_EQ(current_, tensors_.size());
}

}  // namespace quire::formats
