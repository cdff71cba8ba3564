// panel_layout.h: where the numbers of a panel (16 rows of a weight matrix) stand.
//
// A panel is its column blocks one after the other. Floats have blocks of one column: [16 rows]. A
// quantized block keeps the bytes of 16 file blocks, sorted into planes:
//
//   type  columns  codes  high  scales  mins   d   m   bytes (a row: file)
//   Q8_0       32    512                       32           544 (34: 34)
//   Q4_0       32    256                       32           288 (18: 18)
//   Q4_1       32    256                       32  32       320 (20: 20)
//   Q5_0       32    256    64                 32           352 (22: 22)
//   Q5_1       32    256    64                 32  32       384 (24: 24)
//   IQ4_NL     32    256                       32           288 (18: 18)
//   Q2_K      256   1024          256    256   32  32      1600 (100: 84)
//   Q3_K      256   1024   512    256          32          1824 (114: 110)
//   Q4_K      256   2048          128    128   32  32      2368 (148: 144)
//   Q5_K      256   2048   512    128    128   32  32      2880 (180: 176)
//   Q6_K      256   2048  1024    256          32          3360 (210: 210)
//
// Columns of a block are cut into groups of 32 (one, or eight in a K-quant), a group into 8 quads
// of four columns. In every code plane a 64-byte vector holds 16 rows x 4 columns, so that one
// 32-bit lane is one row and meets a broadcast of four activations:
//
//   byte        0   1   2   3 |  4   5   6   7 | ... | 60  61  62  63
//   row               0       |        1       | ... |       15
//   column      0   1   2   3 |  0   1   2   3 | ... |  0   1   2   3   of its quad
//
// A plane of b bits a code has 8 / b quads in a byte, the first in the lowest bits:
//
//   codes  8 bits: [group][quad][64 bytes]   4 bits: [group][quads 2i, 2i + 1][64 bytes]
//          2 bits: [group][quads 4i ... 4i + 3][64 bytes]       (the low bits of Q2_K and Q3_K)
//   high   what a code has above its 4 (or 2) low bits: 1 bit (Q5, Q3_K) or 2 (Q6_K)
//   scales, mins   [sub-block][16 rows] bytes; sub-blocks have 32 columns, in Q2_K, Q3_K and Q6_K
//                  16; the scales of Q3_K and Q6_K are signed
//   d, m           [16 rows] f16; m is dmin in K-quants
//
// A code stands for itself less zero_code(type); one of IQ4_NL for an entry of kIq4NlValues.
// Constants only. Block contents: GGUF specification, ggml-quants.
#pragma once
#include <cstdint>

#include "base/element_type.h"
#include "kernels/paged_kv_view.h"

namespace quire::kernels {

inline constexpr int kGroupColumns = 32;
inline constexpr int kQuadBytes = 64;  // 16 rows x 4 columns of bytes

/// One column block of a panel: byte offsets of its planes; -1 for a plane that it does not have.
struct PanelBlock {
  int columns = 1;
  int code_bits = 0;    // 2 to 6 unsigned, 8 signed; 0 for floats
  bool table = false;   // a code is an index into kIq4NlValues
  int sub_columns = 0;  // columns that share a scale byte, K-quants only
  int high = -1;
  int scales = -1;
  int mins = -1;
  int d = -1;
  int m = -1;
  int bytes = 0;

  /// Bits of a code in the code plane, and above them in the high plane.
  QUIRE_ALWAYS_INLINE constexpr int low_bits() const {
    return code_bits == 8 ? 8 : code_bits >= 4 ? 4 : 2;
  }
  QUIRE_ALWAYS_INLINE constexpr int high_bits() const { return code_bits - low_bits(); }
  /// Bytes of codes and of high bits that one group of 32 columns takes.
  QUIRE_ALWAYS_INLINE constexpr int group_code_bytes() const { return kQuadBytes * low_bits(); }
  QUIRE_ALWAYS_INLINE constexpr int group_high_bytes() const { return kQuadBytes * high_bits(); }
};

/// What the codes of IQ4_NL stand for. // ggml-common.h, kvalues_iq4nl
inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

/// The code that stands for zero, where all codes are non-negative.
QUIRE_ALWAYS_INLINE constexpr int zero_code(ElementType type) {
  switch (type) {
    case ElementType::Q4_0:
      return 8;
    case ElementType::Q5_0:
      return 16;
    case ElementType::Q3_K:
      return 4;
    case ElementType::Q6_K:
      return 32;
    default:
      return 0;
  }
}

/// Lays out a block plane by plane.
class PanelBlockBuilder {
 public:
  QUIRE_ALWAYS_INLINE constexpr PanelBlockBuilder(int columns, int code_bits) {
    block_.columns = columns;
    block_.code_bits = code_bits;
    const int groups = columns / kGroupColumns;
    block_.bytes = groups * block_.group_code_bytes();
    if (block_.group_high_bytes() > 0) block_.high = take(groups * block_.group_high_bytes());
  }
  QUIRE_ALWAYS_INLINE constexpr PanelBlockBuilder scales(int sub_columns) const {
    PanelBlockBuilder next = *this;
    next.block_.sub_columns = sub_columns;
    next.block_.scales = next.take(16 * block_.columns / sub_columns);
    return next;
  }
  QUIRE_ALWAYS_INLINE constexpr PanelBlockBuilder mins() const {
    PanelBlockBuilder next = *this;
    next.block_.mins = next.take(16 * block_.columns / block_.sub_columns);
    return next;
  }
  QUIRE_ALWAYS_INLINE constexpr PanelBlockBuilder table() const {
    PanelBlockBuilder next = *this;
    next.block_.table = true;
    return next;
  }
  QUIRE_ALWAYS_INLINE constexpr PanelBlockBuilder d() const {
    PanelBlockBuilder next = *this;
    next.block_.d = next.take(32);
    return next;
  }
  QUIRE_ALWAYS_INLINE constexpr PanelBlockBuilder m() const {
    PanelBlockBuilder next = *this;
    next.block_.m = next.take(32);
    return next;
  }
  QUIRE_ALWAYS_INLINE constexpr PanelBlock done() const { return block_; }

 private:
  QUIRE_ALWAYS_INLINE constexpr int take(int bytes) {
    const int offset = block_.bytes;
    block_.bytes += bytes;
    return offset;
  }
  PanelBlock block_;
};

QUIRE_ALWAYS_INLINE constexpr PanelBlock float_panel_block(int element_bytes) {
  PanelBlock block;
  block.bytes = 16 * element_bytes;
  return block;
}

QUIRE_ALWAYS_INLINE constexpr PanelBlock panel_block(ElementType type) {
  switch (type) {
    case ElementType::F32:
      return float_panel_block(4);
    case ElementType::F16:
      return float_panel_block(2);
    case ElementType::BF16:
      return float_panel_block(2);
    case ElementType::Q8_0:
      return PanelBlockBuilder(32, 8).d().done();
    case ElementType::Q4_0:
      return PanelBlockBuilder(32, 4).d().done();
    case ElementType::Q4_1:
      return PanelBlockBuilder(32, 4).d().m().done();
    case ElementType::Q5_0:
      return PanelBlockBuilder(32, 5).d().done();
    case ElementType::Q5_1:
      return PanelBlockBuilder(32, 5).d().m().done();
    case ElementType::IQ4_NL:
      return PanelBlockBuilder(32, 4).table().d().done();
    case ElementType::Q2_K:
      return PanelBlockBuilder(256, 2).scales(16).mins().d().m().done();
    case ElementType::Q3_K:
      return PanelBlockBuilder(256, 3).scales(16).d().done();
    case ElementType::Q4_K:
      return PanelBlockBuilder(256, 4).scales(32).mins().d().m().done();
    case ElementType::Q5_K:
      return PanelBlockBuilder(256, 5).scales(32).mins().d().m().done();
    case ElementType::Q6_K:
      return PanelBlockBuilder(256, 6).scales(16).d().done();
  }
  return {};
}

static_assert(panel_block(ElementType::Q8_0).bytes == 544);
static_assert(panel_block(ElementType::Q4_1).bytes == 320);
static_assert(panel_block(ElementType::Q5_1).bytes == 384);
static_assert(panel_block(ElementType::IQ4_NL).bytes == 288);
static_assert(panel_block(ElementType::Q2_K).bytes == 1600);
static_assert(panel_block(ElementType::Q3_K).bytes == 1824);
static_assert(panel_block(ElementType::Q4_K).bytes == 2368);
static_assert(panel_block(ElementType::Q5_K).bytes == 2880);
static_assert(panel_block(ElementType::Q6_K).bytes == 3360);

}  // namespace quire::kernels
