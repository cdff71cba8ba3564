// matmul_tile.inl: what the products with int8 and with f32 activations share.
//
// A tile is R strips x T tokens, one f32 accumulator each, over all columns in ascending order. A
// number therefore does not depend on which tile computed it.
#pragma once
#include "kernels/kernel_set.h"
#include "kernels/panel_layout.h"

namespace quire::kernels::QUIRE_ISA {

constexpr int kStripsAPanel = kPanelRows / kStripRows;
constexpr int64_t kBlockTokens = 96;      // tokens that pass over a panel while it stays near
constexpr int64_t kPrefetchBytes = 2048;  // how far ahead weights are read from memory
constexpr int kMaxStrips = 4;

// Tiles are functions of their own: inlined into one another they run out of registers.
#define QUIRE_TILE __attribute__((noinline)) static

QUIRE_ALWAYS_INLINE const uint16_t* halves(const std::byte* p) {
  return reinterpret_cast<const uint16_t*>(p);
}

/// The next smaller tile: what is left of T - 1 tokens or fewer.
constexpr int fewer_tokens(int tokens) {
  return tokens > 4 ? 4 : tokens / 2;
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

/// Some of them.
QUIRE_ALWAYS_INLINE StripSet strips_from(const StripSet& all, int first, int count) {
  StripSet some{};
  for (int r = 0; r < count; ++r) {
    some.panel[r] = all.panel[first + r];
    some.first_row[r] = all.first_row[first + r];
  }
  return some;
}

/// Writes or adds one strip of one token's result, without the rows that only pad the panel.
QUIRE_ALWAYS_INLINE void store_strip(const MatmulArgs& args, int64_t token, int64_t first_row,
                                     const float* sums) {
  float* out = args.out + token * args.out_stride + first_row - args.first_row;
  const int64_t rows = args.weights->rows() - first_row;
  if (rows >= kStripRows) {
    const Strip value = load_strip(sums);
    store(out, args.store == Store::kAdd ? load_strip(out) + value : value);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    out[i] = args.store == Store::kAdd ? out[i] + sums[i] : sums[i];
}

/// Writes or adds the results of some tokens. // sums: [num_tokens, num_strips, kStripRows]
static void store_sums(const MatmulArgs& args, const StripSet& strips, int num_strips,
                       int64_t first_token, int64_t num_tokens, const float* sums) {
  for (int64_t t = 0; t < num_tokens; ++t) {
    for (int r = 0; r < num_strips; ++r, sums += kStripRows) {
      store_strip(args, first_token + t, strips.first_row[r], sums);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
