// tensor_info.h: one named tensor of a model file: what it is and where its bytes lie.
//
// GGUF and safetensors are both read into this form. A tensor stored in a type that Quire does not
// read is still listed, so that `info` can describe the file; readable_type() is the question to
// ask before using the bytes. A plain value; its views live as long as the TensorTable it came
// from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/element_type.h"
#include "base/result.h"

namespace quire::formats {

struct TensorInfo {
  std::string name;
  std::optional<ElementType> type;  // nothing: stored in a type that Quire does not read
  std::string type_name;            // lower case: "q4_1", "iq2_xs", "i64", "type 77"
  std::vector<int64_t> shape;       // slowest dimension first: [rows, cols]; [] is one number
  uint64_t num_bytes = 0;           // 0 if the type is wholly unknown
  // The content, in the file's mapping and as unaligned as the file has it: copy, never cast. Empty
  // if num_bytes is 0, or if the file was opened for its metadata only and ends before the tensor.
  std::span<const std::byte> bytes;
  int32_t file = 0;  // which file of the TensorTable holds it
};

/// The product of the shape. Never overflows for a tensor that a reader of this layer returned.
int64_t num_elements(const TensorInfo& tensor);

/// The type to read the bytes with, or one sentence naming tensor and type.
Result<ElementType> readable_type(const TensorInfo& tensor);

}  // namespace quire::formats
