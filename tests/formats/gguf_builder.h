// gguf_builder.h: writes small GGUF files, true or lying, for tests and as seeds for fuzzing.
//
// Every number that a reader must distrust can be overridden. A value; no thread of its own.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/gguf_metadata.h"

namespace quire::formats {

/// Appends the little-endian bytes of a number.
template <class T>
void append_number(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

inline void append_string(std::string& out, std::string_view text) {
  append_number<uint64_t>(out, text.size());
  out += text;
}

class GgufBuilder {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // fastest first
    uint32_t type;               // ggml's number
    std::string data;
    std::optional<uint64_t> offset = std::nullopt;  // default: right behind the one before
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> claimed_tensors;
  std::optional<uint64_t> claimed_keys;
  uint64_t alignment = 32;  // of the writer; does not add the key

  /// A key with any type number and any raw bytes as value.
  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view value) {
    append_string(keys_, key);
    append_number<uint32_t>(keys_, type);
    keys_ += value;
    ++num_keys_;
    return *this;
  }

  GgufBuilder& string(std::string_view key, std::string_view text) {
    std::string value;
    append_string(value, text);
    return raw(key, static_cast<uint32_t>(GgufType::kString), value);
  }

  template <class T>
  GgufBuilder& number(std::string_view key, T number) {
    std::string value;
    append_number(value, number);
    return raw(key, static_cast<uint32_t>(type_of<T>()), value);
  }

  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& texts) {
    std::string value;
    append_number(value, static_cast<uint32_t>(GgufType::kString));
    append_number<uint64_t>(value, texts.size());
    for (const std::string& text : texts) append_string(value, text);
    return raw(key, static_cast<uint32_t>(GgufType::kArray), value);
  }

  template <class T>
  GgufBuilder& numbers(std::string_view key, const std::vector<T>& all) {
    std::string value;
    append_number(value, static_cast<uint32_t>(type_of<T>()));
    append_number<uint64_t>(value, all.size());
    for (const T number : all) append_number<T>(value, number);
    return raw(key, static_cast<uint32_t>(GgufType::kArray), value);
  }

  GgufBuilder& tensor(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
  }

  std::string build() const {
    std::string out = magic;
    append_number(out, version);
    append_number<uint64_t>(out, claimed_tensors.value_or(tensors_.size()));
    append_number<uint64_t>(out, claimed_keys.value_or(num_keys_));
    out += keys_;
    uint64_t next = 0;
    std::string data;
    for (const Tensor& tensor : tensors_) {
      append_string(out, tensor.name);
      append_number<uint32_t>(out, static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) append_number(out, dim);
      append_number(out, tensor.type);
      append_number<uint64_t>(out, tensor.offset.value_or(next));
      data += tensor.data;
      pad(data);
      next = data.size();
    }
    if (!tensors_.empty()) pad(out);
    return out + data;
  }

  template <class T>
  static constexpr GgufType type_of() {
    if constexpr (std::is_same_v<T, bool>) return GgufType::kBool;
    if constexpr (std::is_same_v<T, uint8_t>) return GgufType::kUint8;
    if constexpr (std::is_same_v<T, int8_t>) return GgufType::kInt8;
    if constexpr (std::is_same_v<T, uint16_t>) return GgufType::kUint16;
    if constexpr (std::is_same_v<T, int16_t>) return GgufType::kInt16;
    if constexpr (std::is_same_v<T, uint32_t>) return GgufType::kUint32;
    if constexpr (std::is_same_v<T, int32_t>) return GgufType::kInt32;
    if constexpr (std::is_same_v<T, float>) return GgufType::kFloat32;
    if constexpr (std::is_same_v<T, uint64_t>) return GgufType::kUint64;
    if constexpr (std::is_same_v<T, int64_t>) return GgufType::kInt64;
    if constexpr (std::is_same_v<T, double>) return GgufType::kFloat64;
  }

 private:
  void pad(std::string& bytes) const {
    while (bytes.size() % alignment != 0) bytes += '\0';
  }

  std::string keys_;
  uint64_t num_keys_ = 0;
  std::vector<Tensor> tensors_;
};

/// A small file with every kind of value, two readable tensors and one unreadable.
inline GgufBuilder sample_gguf() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .number<uint32_t>("general.alignment", 32)
      .number<uint32_t>("llama.block_count", 2)
      .number<float>("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .number<uint8_t>("test.u8", 200)
      .number<int8_t>("test.i8", -3)
      .number<uint16_t>("test.u16", 60'000)
      .number<int16_t>("test.i16", -300)
      .number<int32_t>("test.i32", -70'000)
      .number<uint64_t>("test.u64", 1ull << 63)
      .number<int64_t>("test.i64", -(int64_t{1} << 40))
      .number<double>("test.f64", 2.5)
      .number<bool>("test.bool", true)
      .numbers<int32_t>("tokenizer.ggml.token_type", {1, 1, 3})
      .numbers<float>("tokenizer.ggml.scores", {0.5f, -1.0f, 0.0f})
      .numbers<bool>("test.flags", {true, false})
      .strings("tokenizer.ggml.tokens", {"a", "", "<|end|>"});
  builder.tensor({"norm.weight", {4}, 0, std::string(16, '\x3F')});
  builder.tensor({"blk.0.attn_q.weight", {64, 3}, 2, std::string(2 * 3 * 18, 'q')});
  builder.tensor({"blk.0.attn_k.weight", {256, 2}, 17, std::string(2 * 74, 'k')});
  return builder;
}

}  // namespace quire::formats
