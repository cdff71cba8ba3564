// matmul_int8.inl: quantized weights times int8 activations.
//
// Integer sums are exact. Floats, per output and block, ascending:
//   32 columns   acc = fma(d * da, isum, acc);  with a minimum acc = fma(m, da * sum(q), acc),
//                where m is the file's, or -8 d (Q4_0), -16 d (Q5_0); IQ4_NL's codes are what they
//                stand for
//   K-quants     acc = fma(d * da, isum, acc);  acc = fma(-dmin * da, imin, acc), where
//                isum = sum over sub-blocks of scale * (codes . q), imin = sum of min * sum(q);
//                Q6_K instead takes 32 * sum of scale * sum(q) from isum, Q3_K 4 times it
#pragma once
#include "kernels/impl/matmul_tile.inl"

namespace quire::kernels::QUIRE_ISA {

/// The sums of a tile while it is computed, and what it reads of each strip and token.
template <int R, int T>
struct Tile {
  Strip acc[R][T];
  const std::byte* panel[R];
  int64_t lane[R];     // the strip's first row within its panel
  const int8_t* q[T];  // [cols]

  QUIRE_ALWAYS_INLINE Tile(const StripSet& strips, const int8_t* first_q, int64_t cols) {
    for (int r = 0; r < R; ++r) {
      panel[r] = strips.panel[r];
      lane[r] = strips.first_row[r] % kPanelRows;
      for (int t = 0; t < T; ++t) acc[r][t] = zero_strip();
    }
    for (int t = 0; t < T; ++t) q[t] = first_q + t * cols;
  }

  /// Reads ahead kBytes that follow `offset`, once for all strips of a panel.
  template <int kBytes>
  QUIRE_ALWAYS_INLINE void prefetch_from(int64_t offset) const {
#pragma GCC unroll 4
    for (int r = 0; r < R; r += kStripsAPanel) {
#pragma GCC unroll 16
      for (int i = 0; i < kBytes; i += 64) prefetch(panel[r] + offset + kPrefetchBytes + i);
    }
  }

  /// Calls add(r, t, pair, weights, even, odd) for all of a group of 32 columns.
  template <ElementType kType, class Add>
  QUIRE_ALWAYS_INLINE void for_each_pair(int64_t codes, int64_t high, int64_t column,
                                         Add add) const {
    constexpr PanelBlock kBlock = panel_block(kType);
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      Pair w[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const std::byte* rows = panel[r] + 4 * lane[r];
        w[r] = load_pair<kBlock.code_bits>(rows + codes, rows + high, pair);
        if constexpr (kBlock.table) w[r] = look_up(w[r]);
      }
#pragma GCC unroll 12
      for (int t = 0; t < T; ++t) {
        const Quad even = load_quad(q[t] + column + 8 * pair);
        const Quad odd = load_quad(q[t] + column + 8 * pair + 4);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) add(r, t, pair, w[r], even, odd);
      }
    }
  }

  QUIRE_ALWAYS_INLINE const uint16_t* half_pointer(int r, int64_t offset) const {
    return halves(panel[r] + offset + 2 * lane[r]);
  }
  QUIRE_ALWAYS_INLINE Strip halves_at(int r, int64_t offset) const {
    return load_strip_half(half_pointer(r, offset));
  }
  QUIRE_ALWAYS_INLINE const std::byte* bytes_at(int r, int64_t offset) const {
    return panel[r] + offset + lane[r];
  }

  QUIRE_ALWAYS_INLINE void finish(const MatmulArgs& args, const StripSet& strips,
                                  int64_t first_token) const {
    alignas(64) float sums[T][R][kStripRows];
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) store(sums[t][r], acc[r][t]);
    }
    store_sums(args, strips, R, first_token, T, sums[0][0]);
  }
};

/// Bits of what is multiplied: codes that are looked up stand for bytes.
template <ElementType kType>
constexpr int kMultipliedBits = panel_block(kType).table ? 8 : panel_block(kType).code_bits;

template <ElementType kType>
constexpr bool kHasMinimum = zero_code(kType) != 0 || panel_block(kType).m >= 0;

/// The minimum of a 32-column block: what sum(q) is multiplied with. // m: in the file, if it has
/// one
template <ElementType kType>
QUIRE_ALWAYS_INLINE Strip block_minimum(const uint16_t* m, Strip d) {
  constexpr int kZero = zero_code(kType);
  if constexpr (kZero != 0) return d * broadcast_strip(static_cast<float>(-kZero));
  if constexpr (panel_block(kType).m >= 0) return load_strip_half(m);
  return zero_strip();
}

template <ElementType kType, int R, int T>
QUIRE_TILE void tile_32(const MatmulArgs& args, const StripSet& strips, int64_t first_token,
                        bool read_ahead) {
  constexpr PanelBlock kBlock = panel_block(kType);
  const int64_t num_blocks = args.x.cols / kGroupColumns;
  Tile<R, T> tile(strips, args.x.q32 + first_token * args.x.cols, args.x.cols);
  const ActivationBlock* x = args.x.blocks32 + first_token * num_blocks;

  for (int64_t b = 0; b < num_blocks; ++b, ++x) {
    const int64_t offset = b * kBlock.bytes;
    if (read_ahead) tile.template prefetch_from<kBlock.bytes>(offset);
    GroupSum<kMultipliedBits<kType>> sum[R][T];
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) sum[r][t].start(x[t * num_blocks]);
    }
    tile.template for_each_pair<kType>(
        offset, offset + kBlock.high, b * kGroupColumns,
        [&](int r, int t, int pair, const Pair& w, Quad even, Quad odd)
            __attribute__((always_inline)) { sum[r][t].add(pair, w, even, odd); });
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Strip d = tile.halves_at(r, offset + kBlock.d);
      const Strip m = block_minimum<kType>(tile.half_pointer(r, offset + kBlock.m), d);
#pragma GCC unroll 12
      for (int t = 0; t < T; ++t) {
        const ActivationBlock& block = x[t * num_blocks];
        Strip& acc = tile.acc[r][t];
        acc = fma(d * broadcast_strip(block.scale), to_float(sum[r][t].total()), acc);
        if constexpr (kHasMinimum<kType>) acc = fma(m, broadcast_strip(block.sum), acc);
      }
    }
  }
  tile.finish(args, strips, first_token);
}

/// Sum over a block of min * sum(q) (of centred codes: scale * sum(q)). // bytes: the first of the
/// plane
template <ElementType kType, int T>
QUIRE_ALWAYS_INLINE void sum_minimums(const std::byte* bytes, const int16_t* sums16,
                                      int64_t token_stride, StripInt (&imin)[T]) {
  for (int t = 0; t < T; ++t) imin[t] = zero_ints();
#pragma GCC unroll 12
  for (int i = 0; i < 8; ++i) {
    const ScalePair pair = panel_block(kType).sub_columns == 16 ? signed_scale_pair(bytes + 32 * i)
                                                                : same_scale_twice(bytes + 16 * i);
#pragma GCC unroll 12
    for (int t = 0; t < T; ++t) {
      add_pair_products(imin[t], pair, sums16 + t * token_stride + 2 * i);
    }
  }
}

/// Adds the integer products of one 256-column block's groups.
template <ElementType kType, int R, int T, class Sum>
QUIRE_ALWAYS_INLINE void sum_groups(const Tile<R, T>& tile, int64_t offset, int64_t column,
                                    bool read_ahead, Sum (&sum)[R][T]) {
  constexpr PanelBlock kBlock = panel_block(kType);
  constexpr int kSubs = kGroupColumns / kBlock.sub_columns;
  for (int group = 0; group < 8; ++group) {
    constexpr int kSlice = kBlock.bytes / 8;
    if (read_ahead) tile.template prefetch_from<kSlice>(offset + group * kSlice);
    StripInt scale[R][kSubs];
    for (int r = 0; r < R; ++r) {
      for (int s = 0; s < kSubs; ++s) {
        const std::byte* p = tile.bytes_at(r, offset + kBlock.scales + 16 * (group * kSubs + s));
        scale[r][s] = zero_code(kType) != 0 ? load_signed_scales(p) : load_scales(p);
      }
    }
    tile.template for_each_pair<kType>(
        offset + group * kBlock.group_code_bytes(),
        offset + kBlock.high + group * kBlock.group_high_bytes(), column + group * kGroupColumns,
        [&](int r, int t, int pair, const Pair& w, Quad even, Quad odd)
            __attribute__((always_inline)) {
              sum[r][t].add(pair, w, even, odd, scale[r][pair * 8 / kBlock.sub_columns]);
            });
  }
}

template <ElementType kType, int R, int T>
QUIRE_TILE void tile_256(const MatmulArgs& args, const StripSet& strips, int64_t first_token,
                         bool read_ahead) {
  constexpr PanelBlock kBlock = panel_block(kType);
  constexpr int kZero = zero_code(kType);  // what is taken from codes that have no minimum
  const int64_t num_blocks = args.x.cols / kBlock.columns;
  Tile<R, T> tile(strips, args.x.q256 + first_token * args.x.cols, args.x.cols);
  const float* scales = args.x.scales256 + first_token * num_blocks;
  const int16_t* sums16 = args.x.sums16 + first_token * num_blocks * 16;

  for (int64_t b = 0; b < num_blocks; ++b, ++scales, sums16 += 16) {
    const int64_t offset = b * kBlock.bytes;
    ScaledSum<kBlock.code_bits, kBlock.sub_columns> sum[R][T];
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) sum[r][t].start();
    }
    sum_groups<kType>(tile, offset, b * kBlock.columns, read_ahead, sum);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Strip d = tile.halves_at(r, offset + kBlock.d);
      StripInt imin[T];
      sum_minimums<kType>(tile.bytes_at(r, offset + (kZero != 0 ? kBlock.scales : kBlock.mins)),
                          sums16, num_blocks * 16, imin);
#pragma GCC unroll 12
      for (int t = 0; t < T; ++t) {
        const Strip da = broadcast_strip(scales[t * num_blocks]);
        const StripInt isum = sum[r][t].total();
        Strip& acc = tile.acc[r][t];
        if constexpr (kZero != 0) {
          acc = fma(d * da, to_float(minus_times<kZero>(isum, imin[t])), acc);
        } else {
          const Strip minus_dmin = tile.halves_at(r, offset + kBlock.m) * broadcast_strip(-1.0f);
          acc = fma(d * da, to_float(isum), acc);
          acc = fma(minus_dmin * da, to_float(imin[t]), acc);
        }
      }
    }
  }
  tile.finish(args, strips, first_token);
}

/// Tokens [begin, end) with tiles of T tokens, the rest with one smaller tile. The first tile
/// brings the weights from memory.
template <ElementType kType, int R, int T>
QUIRE_ALWAYS_INLINE void int8_tokens(const MatmulArgs& args, const StripSet& strips, int64_t begin,
                                     int64_t end, bool read_ahead) {
  for (; begin + T <= end; begin += T, read_ahead = false) {
    if constexpr (is_k_quant(kType)) {
      tile_256<kType, R, T>(args, strips, begin, read_ahead);
    } else {
      tile_32<kType, R, T>(args, strips, begin, read_ahead);
    }
  }
  if constexpr (T > 1) {
    if (begin < end) int8_tokens<kType, R, fewer_tokens(T)>(args, strips, begin, end, read_ahead);
  }
}

/// All strips of kPanels panels, kStrips at a time.
template <ElementType kType, int kPanels, int kStrips, int kTokens>
QUIRE_ALWAYS_INLINE void int8_panels(const MatmulArgs& args, int64_t panel, int64_t apart,
                                     int64_t begin, int64_t end) {
  const StripSet all = whole_panels<kPanels>(args, panel, apart);
  for (int first = 0; first < kPanels * kStripsAPanel; first += kStrips) {
    int8_tokens<kType, kStrips, kTokens>(args, strips_from(all, first, kStrips), begin, end,
                                         first % kStripsAPanel == 0);
  }
}

/// A block of tokens passes over each tile's strips while their weights stay near. Panels that are
/// read at once stand far apart, which memory serves faster than one stream.
template <ElementType kType, int kPanels, int kStrips, int kTokens>
static void int8_token_block(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end,
                             int64_t begin, int64_t end) {
  const int64_t apart = (panel_end - panel_begin) / kPanels;
  for (int64_t panel = panel_begin; panel < panel_begin + apart; ++panel) {
    int8_panels<kType, kPanels, kStrips, kTokens>(args, panel, apart, begin, end);
  }
  for (int64_t panel = panel_begin + apart * kPanels; panel < panel_end; ++panel) {
    constexpr int kFewer = kStrips < kStripsAPanel ? kStrips : kStripsAPanel;
    int8_panels<kType, 1, kFewer, kTokens>(args, panel, 0, begin, end);
  }
}

/// Tokens [begin, end), whole tiles of them, pass over unpacked panels: matmul_unpacked.inl, which
/// is there where kUnpackFrom is not 0.
template <ElementType kType>
static void int8_unpacked(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end,
                          int64_t begin, int64_t end);

template <ElementType kType>
static void int8_matmul(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end) {
  const int64_t num_tokens = args.x.num_rows;
  if (num_tokens == 1) {
    return int8_token_block<kType, kGemvPanels, kGemvPanels * kStripsAPanel, 1>(args, panel_begin,
                                                                                panel_end, 0, 1);
  }
  int64_t begin = 0;
  if constexpr (kUnpackFrom > 0 && !is_k_quant(kType)) {
    if (num_tokens >= kUnpackFrom) {
      begin = num_tokens / kTileTokens * kTileTokens;
      int8_unpacked<kType>(args, panel_begin, panel_end, 0, begin);
    }
  }
  constexpr int kTokens = is_k_quant(kType) ? kTileTokensK : kTileTokens;
  constexpr int kWide = is_k_quant(kType) ? 0 : kWideTokens;
  for (int64_t end = 0; begin < num_tokens; begin = end) {
    end = begin + kBlockTokens < num_tokens ? begin + kBlockTokens : num_tokens;
    if constexpr (kWide > 0) {
      const int64_t whole = (end - begin) / kWide * kWide;
      if (whole > 0) {
        int8_token_block<kType, kTilePanels, 1, kWide>(args, panel_begin, panel_end, begin,
                                                       begin + whole);
        begin += whole;
      }
    }
    int8_token_block<kType, kTilePanels, kTileStrips, kTokens>(args, panel_begin, panel_end, begin,
                                                               end);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
