// element_type.h: how the numbers of a tensor are stored: plain floats or quantized blocks.
//
// Here, in base, because formats (who reads tensors) and kernels (who computes on them) are
// siblings and must agree on it. Block layouts: GGUF specification, ggml type table.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

enum class ElementType : uint8_t {
  F32,
  F16,
  BF16,
  Q8_0,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  IQ4_NL,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K
};

struct ElementTypeInfo {
  ElementType type;
  std::string_view name;   // as GGUF spells it, lower case: "q4_1"
  int32_t block_elements;  // elements a block
  int32_t block_bytes;     // bytes a block, as stored in a file
};

/// Everything about one type.
const ElementTypeInfo& info(ElementType type);

/// By GGUF's (and our) lower- or upper-case name.
std::optional<ElementType> element_type_from_name(std::string_view name);

constexpr bool is_quantized(ElementType type) {
  return type > ElementType::BF16;
}

/// K-quants take activations in blocks of 256, the others in blocks of 32.
constexpr bool is_k_quant(ElementType type) {
  return type >= ElementType::Q2_K;
}

/// Bytes of `elements` numbers; nothing if they are no whole number of blocks, or on overflow.
std::optional<uint64_t> stored_bytes(ElementType type, uint64_t elements);

}  // namespace quire
