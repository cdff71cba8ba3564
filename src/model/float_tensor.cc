#include "model/float_tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace quire::model {
namespace {

/// IEEE 754 binary16, exactly.
float from_half(uint16_t half) {
  const uint32_t exponent = half >> 10 & 0x1Fu;
  const uint32_t mantissa = half & 0x3FFu;
  const float sign = (half & 0x8000u) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-24f;
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return sign * std::bit_cast<float>(wide << 23 | mantissa << 13);
}

float element(std::span<const std::byte> bytes, ElementType type, size_t index) {
  if (type == ElementType::F32) {
    float value;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes.data() + index * sizeof half, sizeof half);
  if (type == ElementType::F16) return from_half(half);
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

}  // namespace

Result<std::vector<float>> read_floats(const formats::TensorInfo& tensor) {
  QUIRE_TRY(const ElementType type, formats::readable_type(tensor));
  if (is_quantized(type)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("tensor {} is stored as {}, but must be f32, f16 or bf16", tensor.name,
                             tensor.type_name)};
  }
  std::vector<float> values(tensor.bytes.size() / static_cast<size_t>(info(type).block_bytes));
  for (size_t i = 0; i < values.size(); ++i) values[i] = element(tensor.bytes, type, i);
  return values;
}

}  // namespace quire::model
