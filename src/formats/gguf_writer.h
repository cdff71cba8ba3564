// gguf_writer.h: writes a GGUF file of version 3: keys and tensors are declared, then the tensors'
// bytes follow in the same order.
//
// Nothing is written before begin(), so that a plan can be checked first: header() is what begin()
// writes, and parse_gguf() reads it. A key set twice keeps its place and takes the later value.
// What is declared must be valid (names not empty, shapes of whole blocks): these are bugs, not
// errors. Use from one thread. Format: ggml's docs/gguf.md.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/element_type.h"
#include "base/new_file.h"
#include "base/result.h"
#include "formats/gguf_metadata.h"

namespace quire::formats {

class GgufWriter {
 public:
  void set_u32(std::string_view key, uint32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_u32s(std::string_view key, std::span<const uint32_t> values);
  void set_i32s(std::string_view key, std::span<const int32_t> values);
  void set_f32s(std::string_view key, std::span<const float> values);
  void set_bools(std::string_view key, const std::vector<bool>& values);
  /// A value of another file, byte for byte.
  void copy(const GgufValue& value);

  /// Slowest dimension first, as TensorInfo has it; at least one.
  void add_tensor(std::string_view name, std::span<const int64_t> shape, ElementType type);

  /// All before the tensors' data.
  std::string header() const;
  /// Bytes of the file when it is complete.
  uint64_t file_bytes() const;

  /// Claims the space of the whole file and writes the header. `file` must outlive the writer.
  Result<void> begin(NewFile& file);
  /// The next bytes of the tensor whose turn it is; they may not reach beyond its end.
  Result<void> append(std::span<const std::byte> bytes);
  /// Requires that every tensor was written whole. The file is not yet committed.
  void finish() const;

 private:
  struct Value {
    std::string key;
    GgufType type;
    std::string bytes;  // as they stand in the file
  };
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    ElementType type;
    uint64_t num_bytes;
  };
  void set(std::string_view key, GgufType type, std::string bytes);

  std::vector<Value> values_;
  std::vector<Tensor> tensors_;
  NewFile* file_ = nullptr;
  size_t current_ = 0;    // index into tensors_
  uint64_t written_ = 0;  // of the current tensor
};

}  // namespace quire::formats
