// matmul_unpacked.inl: weights in blocks of 32 columns times int8 activations of many tokens.
//
// A few panels are unpacked to one byte a code, kUnpackedBlocks blocks at a time, which stay in the
// L1 cache while all tokens pass over them: tiles then only load what each of them would otherwise
// unpack again. Between chunks of columns the accumulators rest in memory as the f32 that they are.
// Sums and their order are those of matmul_int8.inl, and so are the bits.
#pragma once
#include "kernels/impl/matmul_int8.inl"

namespace quire::kernels::QUIRE_ISA {

constexpr int kUnpackedBlocks = 24;       // 768 columns: 15 KiB a panel
constexpr int64_t kUnpackedTokens = 516;  // that share one unpacking: whole tiles
static_assert(kUnpackedTokens % kTileTokens == 0);

/// One panel's block of 32 columns. A row has four bytes in every vector of it.
struct UnpackedBlock {
  alignas(64) std::byte codes[8 * kQuadBytes];  // [quad][16 rows][4 columns]
  alignas(64) float d[kPanelRows];
  alignas(64) float m[kPanelRows];  // what sum(q) is multiplied with; unused without a minimum
};

using UnpackedPanels = UnpackedBlock[kTilePanels][kUnpackedBlocks];

template <ElementType kType>
QUIRE_ALWAYS_INLINE void unpack_strip(const std::byte* from, int64_t lane, UnpackedBlock& to) {
  constexpr PanelBlock kBlock = panel_block(kType);
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    Pair w = load_pair<kBlock.code_bits>(from + 4 * lane, from + kBlock.high + 4 * lane, pair);
    if constexpr (kBlock.table) w = look_up(w);
    store_unpacked(to.codes + 4 * lane, pair, w);
  }
  const Strip d = load_strip_half(halves(from + kBlock.d + 2 * lane));
  store(to.d + lane, d);
  if constexpr (kHasMinimum<kType>) {
    store(to.m + lane, block_minimum<kType>(halves(from + kBlock.m + 2 * lane), d));
  }
}

/// `count` blocks of one panel.
template <ElementType kType>
static void unpack_blocks(const std::byte* from, int64_t count, UnpackedBlock* to) {
  constexpr int kBytes = panel_block(kType).bytes;
  for (int64_t b = 0; b < count; ++b, from += kBytes) {
    for (int i = 0; i < kBytes; i += 64) prefetch(from + kPrefetchBytes + i);
    for (int64_t lane = 0; lane < kPanelRows; lane += kStripRows) {
      unpack_strip<kType>(from, lane, to[b]);
    }
  }
}

/// Some blocks of kTilePanels panels.
struct UnpackedPart {
  const MatmulArgs& args;
  const UnpackedPanels& weights;
  int64_t panel;        // the first
  int64_t first_token;  // that the sums stand for
  int64_t first_block;
  int64_t end_block;
  float* sums;                          // so far // [tokens, kTilePanels, kPanelRows]
  const std::byte* ahead[kTilePanels];  // the panels that follow

  QUIRE_ALWAYS_INLINE bool is_first() const { return first_block == 0; }
  QUIRE_ALWAYS_INLINE bool is_last() const { return end_block * kGroupColumns == args.x.cols; }
};

/// T rows that stand `stride` apart, reached from every third: few enough pointers for the
/// registers.
template <class E, int T>
struct TokenRows {
  const E* third[(T + 2) / 3];
  int64_t stride;

  QUIRE_ALWAYS_INLINE TokenRows(const E* first, int64_t row_stride) : stride(row_stride) {
    for (int i = 0; i < (T + 2) / 3; ++i) third[i] = first + 3 * i * stride;
  }
  QUIRE_ALWAYS_INLINE const E* operator[](int t) const { return third[t / 3] + t % 3 * stride; }
  QUIRE_ALWAYS_INLINE void advance(int64_t count) {
    for (const E*& p : third) p += count;
  }
};

/// Fetches block `b` of the panels that follow while these ones are multiplied.
template <ElementType kType>
QUIRE_ALWAYS_INLINE void prefetch_block(const std::byte* const (&panels)[kTilePanels], int64_t b) {
  constexpr int kBytes = panel_block(kType).bytes;
  for (const std::byte* panel : panels) {
    for (int i = 0; i < kBytes; i += 64) prefetch(panel + b * kBytes + i);
  }
}

/// The sums of a tile: T tokens times the strips at one row of each panel.
template <int T>
struct UnpackedSums {
  static constexpr int R = kTilePanels;
  Strip acc[R][T];

  QUIRE_ALWAYS_INLINE void clear() {
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) acc[r][t] = zero_strip();
    }
  }
  // sums: [T, kTilePanels, kPanelRows], at the strips' row
  QUIRE_ALWAYS_INLINE void load(const float* sums) {
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) acc[r][t] = load_strip(sums + (t * R + r) * kPanelRows);
    }
  }
  QUIRE_ALWAYS_INLINE void save(float* sums) const {
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) store(sums + (t * R + r) * kPanelRows, acc[r][t]);
    }
  }

  /// The products with one block of each panel.
  template <ElementType kType>
  QUIRE_ALWAYS_INLINE void add(const UnpackedBlock* w, int64_t lane, const TokenRows<int8_t, T>& q,
                               const TokenRows<ActivationBlock, T>& x) {
    GroupSum<kMultipliedBits<kType>> sum[R][T];
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) sum[r][t].start(*x[t]);
    }
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      Pair codes[R];
      for (int r = 0; r < R; ++r) {
        codes[r] = load_unpacked(w[r * kUnpackedBlocks].codes + 4 * lane, pair);
      }
#pragma GCC unroll 12
      for (int t = 0; t < T; ++t) {
        const Quad even = load_quad(q[t] + 8 * pair);
        const Quad odd = load_quad(q[t] + 8 * pair + 4);
        for (int r = 0; r < R; ++r) sum[r][t].add(pair, codes[r], even, odd);
      }
    }
    Strip d[R], m[R];
    for (int r = 0; r < R; ++r) {
      d[r] = load_strip(w[r * kUnpackedBlocks].d + lane);
      if constexpr (kHasMinimum<kType>) m[r] = load_strip(w[r * kUnpackedBlocks].m + lane);
    }
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
      const Strip scale = broadcast_strip(x[t]->scale);
      for (int r = 0; r < R; ++r) {
        acc[r][t] = fma(d[r] * scale, to_float(sum[r][t].total()), acc[r][t]);
        if constexpr (kHasMinimum<kType>) {
          acc[r][t] = fma(m[r], broadcast_strip(x[t]->sum), acc[r][t]);
        }
      }
    }
  }

  /// The result of tokens from `token` on and of the strips from `row` on.
  QUIRE_ALWAYS_INLINE void write(const MatmulArgs& args, int64_t token, int64_t row) const {
    if (row + (R - 1) * kPanelRows + kStripRows <= args.weights->rows()) {
      float* out = args.out + token * args.out_stride + row - args.first_row;
#pragma GCC unroll 12
      for (int t = 0; t < T; ++t, out += args.out_stride) {
        for (int r = 0; r < R; ++r) {
          float* p = out + r * kPanelRows;
          store(p, args.store == Store::kAdd ? load_strip(p) + acc[r][t] : acc[r][t]);
        }
      }
      return;
    }
    alignas(64) float sums[T][R][kPanelRows];
    save(sums[0][0]);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) store_strip(args, token + t, row + r * kPanelRows, sums[t][r]);
    }
  }
};

/// Adds the part's products of tokens [token, token + T) with the strips at row `lane`; after the
/// last part they are the result.
template <ElementType kType, int T>
QUIRE_TILE void unpacked_tile(const UnpackedPart& part, int64_t lane, int64_t token) {
  const ActivationView& rows = part.args.x;
  const int64_t num_blocks = rows.cols / kGroupColumns;
  const int64_t first = part.first_token + token;
  TokenRows<int8_t, T> q(rows.q32 + first * rows.cols + part.first_block * kGroupColumns,
                         rows.cols);
  TokenRows<ActivationBlock, T> x(rows.blocks32 + first * num_blocks + part.first_block,
                                  num_blocks);
  float* so_far = part.sums + token * kTilePanels * kPanelRows + lane;
  UnpackedSums<T> sums;
  if (part.is_first()) {
    sums.clear();
  } else {
    sums.load(so_far);
  }
  const UnpackedBlock* w = part.weights[0];
  for (int64_t b = part.first_block; b < part.end_block; ++b, ++w) {
    if (token == 0 && lane == 0) prefetch_block<kType>(part.ahead, b);
    sums.template add<kType>(w, lane, q, x);
    q.advance(kGroupColumns);
    x.advance(1);
  }
  if (part.is_last()) {
    sums.write(part.args, first, part.panel * kPanelRows + lane);
  } else {
    sums.save(so_far);
  }
}

/// `num_tokens` tokens, whole tiles, times kTilePanels neighbouring panels.
template <ElementType kType>
static void unpacked_panels(const MatmulArgs& args, int64_t panel, int64_t first_token,
                            int64_t num_tokens) {
  UnpackedPanels weights;
  alignas(64) float sums[kUnpackedTokens * kTilePanels * kPanelRows];
  const int64_t num_blocks = args.x.cols / kGroupColumns;
  const int64_t last_panel = (args.weights->rows() - 1) / kPanelRows;
  for (int64_t b = 0; b < num_blocks; b += kUnpackedBlocks) {
    const int64_t end = b + kUnpackedBlocks < num_blocks ? b + kUnpackedBlocks : num_blocks;
    for (int r = 0; r < kTilePanels; ++r) {
      unpack_blocks<kType>(args.weights->panel(panel + r) + b * panel_block(kType).bytes, end - b,
                           weights[r]);
    }
    UnpackedPart part{args, weights, panel, first_token, b, end, sums, {}};
    for (int r = 0; r < kTilePanels; ++r) {
      const int64_t next = panel + kTilePanels + r;
      part.ahead[r] = args.weights->panel(next < last_panel ? next : last_panel);
    }
    for (int64_t lane = 0; lane < kPanelRows; lane += kStripRows) {
      for (int64_t t = 0; t < num_tokens; t += kTileTokens) {
        unpacked_tile<kType, kTileTokens>(part, lane, t);
      }
    }
  }
}

template <ElementType kType>
static void int8_unpacked(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end,
                          int64_t begin, int64_t end) {
  for (; begin < end; begin += kUnpackedTokens) {
    const int64_t count = end - begin < kUnpackedTokens ? end - begin : kUnpackedTokens;
    int64_t panel = panel_begin;
    for (; panel + kTilePanels <= panel_end; panel += kTilePanels) {
      unpacked_panels<kType>(args, panel, begin, count);
    }
    for (; panel < panel_end; ++panel) {
      int8_panels<kType, 1, kStripsAPanel, kTileTokens>(args, panel, 0, begin, begin + count);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
