#include "kernels/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/panel_layout.h"
#include "kernels/simd/scalar.h"

namespace quire::kernels {
namespace {

float half_at(const std::byte* p) {
  uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return scalar::half_to_float(bits);
}

/// The four codes of one row in a quad of columns, less the type's zero.
struct QuadCodes {
  int values[4];
};

/// Four numbers of `bits` bits out of the plane of a group; `plane` points at the row's lane.
QuadCodes read_bits(const std::byte* plane, int bits, int quad) {
  const int quads_a_byte = 8 / bits;
  const std::byte* bytes = plane + kQuadBytes * (quad / quads_a_byte);
  QuadCodes out{};
  for (int j = 0; j < 4; ++j) {
    const int byte = static_cast<int>(bytes[j]);
    out.values[j] = byte >> bits * (quad % quads_a_byte) & ((1 << bits) - 1);
  }
  return out;
}

QuadCodes read_quad(const PanelBlock& layout, int zero, const std::byte* block, int quad,
                    int lane) {
  const int group = quad / 8;
  quad %= 8;
  const std::byte* codes = block + group * layout.group_code_bytes() + 4 * lane;
  QuadCodes out = read_bits(codes, layout.low_bits(), quad);
  if (layout.high >= 0) {
    const std::byte* plane = block + layout.high + group * layout.group_high_bytes() + 4 * lane;
    const QuadCodes high = read_bits(plane, layout.high_bits(), quad);
    for (int j = 0; j < 4; ++j) out.values[j] |= high.values[j] << layout.low_bits();
  }
  for (int& value : out.values) {
    if (layout.table) {
      value = kIq4NlValues[value];
    } else {
      value = layout.code_bits == 8 ? static_cast<int8_t>(value) : value - zero;
    }
  }
  return out;
}

struct Terms {
  float d;
  float m;
};

/// d and m of one row in the sub-block that holds `column` of the block.
Terms read_terms(ElementType type, const PanelBlock& layout, const std::byte* block, int column,
                 int lane) {
  Terms terms{half_at(block + layout.d + 2 * lane), 0.0f};
  if (layout.scales < 0) {
    if (layout.m >= 0) terms.m = -half_at(block + layout.m + 2 * lane);
    return terms;
  }
  const int at = 16 * (column / layout.sub_columns) + lane;
  const auto scale = static_cast<uint8_t>(block[layout.scales + at]);
  const bool has_sign = zero_code(type) != 0;  // scales of centred codes
  terms.d *= has_sign ? static_cast<float>(static_cast<int8_t>(scale)) : static_cast<float>(scale);
  if (layout.mins >= 0) {
    terms.m = half_at(block + layout.m + 2 * lane) *
              static_cast<float>(static_cast<uint8_t>(block[layout.mins + at]));
  }
  return terms;
}

/// One row of one block. // out: [columns], `stride` apart
void dequantize_block(ElementType type, const PanelBlock& layout, const std::byte* block, int lane,
                      float* out, int64_t stride) {
  const int zero = zero_code(type);
  const int run = layout.sub_columns > 0 ? layout.sub_columns : layout.columns;
  for (int column = 0; column < layout.columns; column += run) {
    const Terms terms = read_terms(type, layout, block, column, lane);
    for (int c = column; c < column + run; c += 4) {
      const QuadCodes codes = read_quad(layout, zero, block, c / 4, lane);
      for (int j = 0; j < 4; ++j) {
        out[(c + j) * stride] = terms.d * static_cast<float>(codes.values[j]) - terms.m;
      }
    }
  }
}

float read_float(ElementType type, const std::byte* column, int lane) {
  if (type == ElementType::F16) return half_at(column + 2 * lane);
  uint32_t bits = 0;
  if (type == ElementType::BF16) {
    uint16_t top = 0;
    std::memcpy(&top, column + 2 * lane, sizeof top);
    bits = uint32_t{top} << 16;
  } else {
    std::memcpy(&bits, column + 4 * lane, sizeof bits);
  }
  return std::bit_cast<float>(bits);
}

/// Columns of one row of a panel. // out: [num_columns], `stride` apart
void dequantize_lane(ElementType type, const std::byte* panel, int lane, int64_t first_column,
                     int64_t num_columns, float* out, int64_t stride) {
  const PanelBlock layout = panel_block(type);
  const std::byte* block = panel + first_column / layout.columns * layout.bytes;
  for (int64_t c = 0; c < num_columns; c += layout.columns, block += layout.bytes) {
    if (is_quantized(type)) {
      dequantize_block(type, layout, block, lane, out + c * stride, stride);
    } else {
      out[c * stride] = read_float(type, block, lane);
    }
  }
}

}  // namespace

void dequantize_row(const WeightMatrix& weights, int64_t row, float* out) {
  QUIRE_CHECK(row >= 0 && row < weights.rows(), "the matrix has no such row");
  dequantize_lane(weights.type(), weights.panel(row / kPanelRows),
                  static_cast<int>(row % kPanelRows), 0, weights.cols(), out, 1);
}

void dequantize_panel(const WeightMatrix& weights, int64_t panel, int64_t first_column,
                      int64_t num_columns, float* out) {
  for (int lane = 0; lane < kPanelRows; ++lane) {
    dequantize_lane(weights.type(), weights.panel(panel), lane, first_column, num_columns,
                    out + lane, kPanelRows);
  }
}

}  // namespace quire::kernels
