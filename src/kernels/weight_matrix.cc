#include "kernels/weight_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "kernels/file_block.h"
#include "kernels/panel_layout.h"

namespace quire::kernels {
namespace {

// A quad is four codes, a byte each. Loading a model places each weight so: one by one it took
// longer than reading the file.
template <class Byte>
uint32_t read_quad(const Byte* codes) {
  uint32_t quad = 0;
  std::memcpy(&quad, codes, sizeof quad);
  return quad;
}

void write_quad(uint32_t quad, std::byte* out) {
  std::memcpy(out, &quad, sizeof quad);
}

/// Writes `bits` bits of one row's codes, from bit `from` on, into a zeroed plane of a group.
/// // codes: [32]
void place_bits(const uint8_t* codes, int from, int bits, int lane, std::byte* plane) {
  const int quads_a_byte = 8 / bits;
  const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
  std::byte* out = plane + 4 * lane;
  for (int quad = 0; quad < kGroupColumns / 4; ++quad) {
    std::byte* bytes = out + kQuadBytes * (quad / quads_a_byte);
    const uint32_t picked = read_quad(codes + 4 * quad) >> from & mask;
    write_quad(read_quad(bytes) | picked << bits * (quad % quads_a_byte), bytes);
  }
}

/// Writes the codes of one row into the code plane of a group; the sizes of most files are spelled
/// out for speed. // codes: [32]
void place_codes(const PanelBlock& layout, const uint8_t* codes, int lane, std::byte* plane) {
  if (layout.low_bits() == 2) return place_bits(codes, 0, 2, lane, plane);
  std::byte* out = plane + 4 * lane;
  if (layout.low_bits() == 8) {
    for (int quad = 0; quad < 8; ++quad) {
      write_quad(read_quad(codes + 4 * quad), out + kQuadBytes * quad);
    }
    return;
  }
  constexpr uint32_t kNibbles = 0x0f0f0f0f;
  for (int pair = 0; pair < 4; ++pair, out += kQuadBytes, codes += 8) {
    write_quad((read_quad(codes) & kNibbles) | (read_quad(codes + 4) & kNibbles) << 4, out);
  }
}

void place_bytes(const uint8_t* values, int count, int lane, std::byte* plane) {
  for (int s = 0; s < count; ++s) plane[16 * s + lane] = static_cast<std::byte>(values[s]);
}

/// Writes one row's block into its lane of a zeroed panel block.
void place_block(const PanelBlock& layout, const FileBlock& block, int lane, std::byte* out) {
  for (int group = 0; group < layout.columns / kGroupColumns; ++group) {
    const uint8_t* codes = block.codes + kGroupColumns * group;
    place_codes(layout, codes, lane, out + group * layout.group_code_bytes());
    if (layout.high >= 0) {
      place_bits(codes, layout.low_bits(), layout.high_bits(), lane,
                 out + layout.high + group * layout.group_high_bytes());
    }
  }
  if (layout.scales >= 0) {
    place_bytes(block.scales, layout.columns / layout.sub_columns, lane, out + layout.scales);
  }
  if (layout.mins >= 0) {
    place_bytes(block.mins, layout.columns / layout.sub_columns, lane, out + layout.mins);
  }
  std::memcpy(out + layout.d + 2 * lane, &block.d, 2);
  if (layout.m >= 0) std::memcpy(out + layout.m + 2 * lane, &block.m, 2);
}

void place_quantized_row(ElementType type, const std::byte* row, int64_t num_blocks, int lane,
                         std::byte* panel) {
  const PanelBlock layout = panel_block(type);
  const int file_bytes = info(type).block_bytes;
  FileBlock block;
  for (int64_t b = 0; b < num_blocks; ++b) {
    read_file_block(type, row + b * file_bytes, block);
    place_block(layout, block, lane, panel + b * layout.bytes);
  }
}

template <class Element>
void place_float_row(const std::byte* row, int64_t cols, int lane, std::byte* panel) {
  std::byte* out = panel + static_cast<size_t>(lane) * sizeof(Element);
  for (int64_t c = 0; c < cols; ++c) {
    std::memcpy(out + c * kPanelRows * sizeof(Element), row + c * sizeof(Element), sizeof(Element));
  }
}

void place_row(ElementType type, const std::byte* row, int64_t cols, int lane, std::byte* panel) {
  if (type == ElementType::F32) return place_float_row<uint32_t>(row, cols, lane, panel);
  if (!is_quantized(type)) return place_float_row<uint16_t>(row, cols, lane, panel);
  place_quantized_row(type, row, cols / info(type).block_elements, lane, panel);
}

}  // namespace

Result<WeightMatrix> WeightMatrix::pack(const Source& source) {
  QUIRE_CHECK(source.rows >= 0 && source.cols >= 0, "a matrix has no negative sizes");
  const int64_t stored_rows = source.stored_rows < 0 ? source.rows : source.stored_rows;
  const auto elements = checked_mul(stored_rows, source.cols);
  QUIRE_CHECK(elements && stored_bytes(source.type, *elements) == source.stored.size(),
              "the stored bytes are not those of the matrix");
  QUIRE_CHECK_EQ(source.cols % info(source.type).block_elements, 0);

  const PanelBlock layout = panel_block(source.type);
  WeightMatrix matrix;
  matrix.type_ = source.type;
  matrix.rows_ = source.rows;
  matrix.cols_ = source.cols;
  matrix.panel_bytes_ = source.cols / layout.columns * layout.bytes;
  QUIRE_TRY(matrix.panels_, HugeBuffer::allocate(matrix.num_panels() * matrix.panel_bytes_));

  const auto row_bytes = static_cast<int64_t>(*stored_bytes(source.type, source.cols));
  const auto place_panel = [&](int64_t panel) {
    const int64_t end = std::min(source.rows, (panel + 1) * kPanelRows);
    for (int64_t r = panel * kPanelRows; r < end; ++r) {
      const int64_t from = source.source_row ? source.source_row(r) : r;
      QUIRE_CHECK(from >= 0 && from < stored_rows, "source_row names a stored row");
      place_row(source.type, source.stored.data() + from * row_bytes, source.cols,
                static_cast<int>(r % kPanelRows),
                matrix.panels_.data() + panel * matrix.panel_bytes_);
    }
  };
  if (source.threads != nullptr) {
    source.threads->parallel(static_cast<int32_t>(matrix.num_panels()), place_panel);
  } else {
    for (int64_t panel = 0; panel < matrix.num_panels(); ++panel) place_panel(panel);
  }
  return matrix;
}

const std::byte* WeightMatrix::panel(int64_t p) const {
  return panels_.data() + p * panel_bytes_;
}

}  // namespace quire::kernels
