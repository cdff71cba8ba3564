#include "kernels/stored_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/file_block.h"
#include "kernels/panel_layout.h"
#include "kernels/simd/scalar.h"

namespace quire::kernels {
namespace {

constexpr size_t kBlock32 = 32;
using Block32 = std::span<const float, kBlock32>;

template <class T>
T read_at(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

void put_half(std::byte* at, uint16_t half) {
  std::memcpy(at, &half, sizeof half);
}

bool is_finite_half(uint16_t half) {
  return (half & 0x7C00) != 0x7C00;
}

/// One block of 32 or 256. // out: [block_elements]
void decode_block(ElementType type, const std::byte* stored, float* out) {
  const PanelBlock layout = panel_block(type);
  FileBlock block;
  read_file_block(type, stored, block);
  const float d = scalar::half_to_float(block.d);
  const float m = layout.m >= 0 ? scalar::half_to_float(block.m) : 0.0f;
  const int run = layout.sub_columns > 0 ? layout.sub_columns : layout.columns;
  const int zero = zero_code(type);
  for (int c = 0; c < layout.columns; ++c) {
    const int s = c / run;
    float scale = d;
    // A 32-column block adds its m, a K-quant subtracts; without one, zeros keep their signs.
    float minimum = layout.m >= 0 ? -m : 0.0f;
    if (layout.scales >= 0) {
      scale *= zero != 0 ? static_cast<float>(static_cast<int8_t>(block.scales[s]))
                         : static_cast<float>(block.scales[s]);
      minimum = layout.mins >= 0 ? m * static_cast<float>(block.mins[s]) : 0.0f;
    }
    int code = block.codes[c];
    if (layout.table) code = kIq4NlValues[code];
    if (layout.code_bits == 8) code = static_cast<int8_t>(block.codes[c]);
    out[c] = scale * static_cast<float>(code - zero) - minimum;
  }
}

/// To nearest even; a NaN would stay one, but those are refused before.
uint16_t to_bfloat(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// Of numbers so small that the reciprocal overflows, f16 keeps nothing anyway.
float reciprocal_or_zero(float d) {
  const float inverse = 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

/// 32 codes of 4 bits: byte j holds codes j (low) and j + 16.
void put_nibbles(const int (&codes)[kBlock32], std::byte* out) {
  for (size_t j = 0; j < 16; ++j) out[j] = static_cast<std::byte>(codes[j] | codes[j + 16] << 4);
}

uint16_t encode_q8_0(Block32 x, std::byte* out) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  const float d = largest / 127.0f;
  const float inverse = reciprocal_or_zero(d);
  for (size_t i = 0; i < x.size(); ++i) {
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * inverse)));
  }
  const uint16_t half = scalar::float_to_half(d);
  put_half(out, half);
  return half;
}

/// The number farthest from zero becomes -8 exactly, so that all sixteen codes are used.
uint16_t encode_q4_0(Block32 x, std::byte* out) {
  float farthest = x[0];
  for (const float v : x) {
    if (std::abs(v) > std::abs(farthest)) farthest = v;
  }
  const float d = farthest / -8.0f;
  const float inverse = reciprocal_or_zero(d);
  int codes[kBlock32];
  for (size_t i = 0; i < x.size(); ++i) {
    codes[i] = std::min(15, static_cast<int>(x[i] * inverse + 8.5f));
  }
  put_nibbles(codes, out + 2);
  const uint16_t half = scalar::float_to_half(d);
  put_half(out, half);
  return half;
}

uint16_t encode_q4_1(Block32 x, std::byte* out) {
  const auto [least, most] = std::ranges::minmax(x);
  const float d = (most - least) / 15.0f;
  const float inverse = reciprocal_or_zero(d);
  int codes[kBlock32];
  for (size_t i = 0; i < x.size(); ++i) {
    codes[i] = std::min(15, static_cast<int>((x[i] - least) * inverse + 0.5f));
  }
  put_nibbles(codes, out + 4);
  const uint16_t half_d = scalar::float_to_half(d);
  const uint16_t half_m = scalar::float_to_half(least);
  put_half(out, half_d);
  put_half(out + 2, half_m);
  return is_finite_half(half_m) ? half_d : half_m;
}

/// Returns the scale that was stored, or another that is infinite if one of them is.
uint16_t encode_block(ElementType type, Block32 x, std::byte* out) {
  if (type == ElementType::Q8_0) return encode_q8_0(x, out);
  if (type == ElementType::Q4_0) return encode_q4_0(x, out);
  return encode_q4_1(x, out);
}

EncodeProblem encode_halves(std::span<const float> row, std::span<std::byte> out) {
  for (size_t i = 0; i < row.size(); ++i) {
    const uint16_t half = scalar::float_to_half(row[i]);
    if (!is_finite_half(half)) return EncodeProblem::kTooLarge;
    put_half(out.data() + 2 * i, half);
  }
  return EncodeProblem::kNone;
}

}  // namespace

void decode_row(ElementType type, std::span<const std::byte> stored, std::span<float> out) {
  QUIRE_CHECK(stored_bytes(type, out.size()) == stored.size(), "the bytes are those of the row");
  for (size_t i = 0; !is_quantized(type) && i < out.size(); ++i) {
    if (type == ElementType::F32) out[i] = read_at<float>(stored, i);
    if (type == ElementType::F16) out[i] = scalar::half_to_float(read_at<uint16_t>(stored, i));
    if (type == ElementType::BF16) {
      out[i] = std::bit_cast<float>(uint32_t{read_at<uint16_t>(stored, i)} << 16);
    }
  }
  if (!is_quantized(type)) return;
  const auto columns = static_cast<size_t>(info(type).block_elements);
  const auto bytes = static_cast<size_t>(info(type).block_bytes);
  for (size_t b = 0; b < out.size() / columns; ++b) {
    decode_block(type, stored.data() + b * bytes, out.data() + b * columns);
  }
}

bool can_encode(ElementType type) {
  switch (type) {
    case ElementType::F32:
    case ElementType::F16:
    case ElementType::BF16:
    case ElementType::Q8_0:
    case ElementType::Q4_0:
    case ElementType::Q4_1:
      return true;
    default:
      return false;
  }
}

EncodeProblem encode_row(ElementType type, std::span<const float> row, std::span<std::byte> out) {
  QUIRE_CHECK(can_encode(type), "the type can be written");
  QUIRE_CHECK(stored_bytes(type, row.size()) == out.size(), "the bytes are those of the row");
  if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) {
    return EncodeProblem::kNotFinite;
  }
  if (type == ElementType::F32) {
    std::memcpy(out.data(), row.data(), out.size());
    return EncodeProblem::kNone;
  }
  if (type == ElementType::F16) return encode_halves(row, out);
  if (type == ElementType::BF16) {
    for (size_t i = 0; i < row.size(); ++i) put_half(out.data() + 2 * i, to_bfloat(row[i]));
    return EncodeProblem::kNone;
  }
  constexpr float kBeyondEveryScale = 127.0f * 65536.0f;
  if (std::ranges::any_of(row, [](float x) { return std::abs(x) >= kBeyondEveryScale; })) {
    return EncodeProblem::kTooLarge;
  }
  const auto bytes = static_cast<size_t>(info(type).block_bytes);
  for (size_t b = 0; b < row.size() / kBlock32; ++b) {
    const Block32 block(row.data() + b * kBlock32, kBlock32);
    const uint16_t scale = encode_block(type, block, out.data() + b * bytes);
    if (!is_finite_half(scale)) return EncodeProblem::kTooLarge;
  }
  return EncodeProblem::kNone;
}

}  // namespace quire::kernels
