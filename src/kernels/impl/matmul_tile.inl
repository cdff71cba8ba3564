// matmul_tile.inl: what the products with int8 and with f32 activations share.
//
// A tile is R strips x T tokens, one f32 accumulator each, over all columns in ascending order. A
// number therefore does not depend on which tile computed it.
#pragma once
#include "kernels/kernel_set.h"
#include "kernels/panel_layout.h"

namespace quire::kernels::QUIRE_ISA {

constexpr int kStripsAPanel = kPanelRows / kStripRows;
constexpr int64_t kBlockTokens = 64;      // tokens that pass over a panel while it stays near
constexpr int64_t kPrefetchBytes = 1024;  // how far ahead one token's product reads
constexpr int kMaxStrips = 4;

QUIRE_ALWAYS_INLINE const uint16_t* halves(const std::byte* p) {
  return reinterpret_cast<const uint16_t*>(p);
}

/// Strips of the matrix, anywhere in it.
struct StripSet {
  const std::byte* panel[kMaxStrips];
  int64_t first_row[kMaxStrips];
};

/// Where a strip's rows start inside a vector of 16 rows x `bytes_a_row`.
QUIRE_ALWAYS_INLINE int64_t strip_offset(int64_t first_row, int bytes_a_row) {
  return first_row % kPanelRows * bytes_a_row;
}

/// One strip of a panel.
QUIRE_ALWAYS_INLINE StripSet one_strip(const MatmulArgs& args, int64_t panel, int strip) {
  StripSet set{};
  set.panel[0] = args.weights->panel(panel);
  set.first_row[0] = panel * kPanelRows + strip * kStripRows;
  return set;
}

/// All strips of kPanels panels that stand `apart` panels from each other.
template <int kPanels>
QUIRE_ALWAYS_INLINE StripSet whole_panels(const MatmulArgs& args, int64_t first, int64_t apart) {
  static_assert(kPanels * kStripsAPanel <= kMaxStrips);
  StripSet set{};
  for (int r = 0; r < kPanels * kStripsAPanel; ++r) {
    const int64_t panel = first + r / kStripsAPanel * apart;
    set.panel[r] = args.weights->panel(panel);
    set.first_row[r] = panel * kPanelRows + r % kStripsAPanel * kStripRows;
  }
  return set;
}

/// Writes or adds one strip of one token's result, without the rows that only pad the panel.
QUIRE_ALWAYS_INLINE void store_result(const MatmulArgs& args, int64_t token, int64_t first_row,
                                      Strip value) {
  float* out = args.out + token * args.out_stride + first_row;
  const int64_t rows = args.weights->rows() - first_row;
  if (rows >= kStripRows) {
    store(out, args.store == Store::kAdd ? load_strip(out) + value : value);
    return;
  }
  float lanes[kStripRows];
  store(lanes, value);
  for (int64_t i = 0; i < rows; ++i)
    out[i] = args.store == Store::kAdd ? out[i] + lanes[i] : lanes[i];
}

}  // namespace quire::kernels::QUIRE_ISA
