// matmul_int8.inl: quantized weights times int8 activations.
//
// Integer sums are exact. Floats, per output and block, ascending:
//   32 columns   acc = fma(d * da, isum, acc);  with a minimum acc = fma(m, da * sum(q), acc),
//                where m is the file's, or -8 d (Q4_0), -16 d (Q5_0)
//   K-quants     acc = fma(d * da, isum, acc);  acc = fma(-(dmin * da), imin, acc), where
//                isum = sum over sub-blocks of scale * (codes . q), imin = sum of min * sum(q);
//                Q6_K instead takes 32 * sum of scale * sum(q) from isum
#pragma once
#include "kernels/impl/matmul_tile.inl"

namespace quire::kernels::QUIRE_ISA {

/// Reads ahead what one token's product will need, once for all strips of a panel.
template <int kBytes, int R>
QUIRE_ALWAYS_INLINE void prefetch_blocks(const StripSet& strips, int64_t offset) {
  for (int r = 0; r < R; r += kStripsAPanel) {
    for (int i = 0; i < kBytes; i += 64) {
      prefetch(strips.panel[r] + offset + kPrefetchBytes + i);
    }
  }
}

/// The products of one group of 32 columns. Sum: GroupSum with its start called.
template <int kBits, int R, int T, class Add>
QUIRE_ALWAYS_INLINE void for_each_pair(const std::byte* const (&codes)[R],
                                       const std::byte* const (&high)[R],
                                       const int8_t* const (&q)[T], int64_t column, Add add) {
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    Pair w[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) w[r] = load_pair<kBits>(codes[r], high[r], pair);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const Quad even = load_quad(q[t] + column + 8 * pair);
      const Quad odd = load_quad(q[t] + column + 8 * pair + 4);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) add(r, t, pair, w[r], even, odd);
    }
  }
}

/// The minimum of a 32-column block: what sum(q) is multiplied with.
template <ElementType kType>
QUIRE_ALWAYS_INLINE Strip block_minimum(Strip d, const std::byte* m) {
  if constexpr (kType == ElementType::Q4_0) return d * broadcast_strip(-8.0f);
  if constexpr (kType == ElementType::Q5_0) return d * broadcast_strip(-16.0f);
  return load_strip_half(halves(m));
}

template <ElementType kType, int R, int T>
static void tile_32(const MatmulArgs& args, const StripSet& strips, int64_t first_token) {
  constexpr PanelBlock kBlock = panel_block(kType);
  constexpr bool kHasMinimum = kType != ElementType::Q8_0;
  const int64_t num_blocks = args.x.cols / kGroupColumns;

  const int8_t* q[T];
  const ActivationBlock* blocks[T];
  Strip acc[R][T];
  for (int t = 0; t < T; ++t) {
    q[t] = args.x.q32 + (first_token + t) * args.x.cols;
    blocks[t] = args.x.blocks32 + (first_token + t) * num_blocks;
    for (int r = 0; r < R; ++r) acc[r][t] = zero_strip();
  }
  for (int64_t b = 0; b < num_blocks; ++b) {
    const int64_t offset = b * kBlock.bytes;
    if constexpr (T == 1) prefetch_blocks<kBlock.bytes, R>(strips, offset);
    const std::byte* codes[R];
    const std::byte* high[R];
    for (int r = 0; r < R; ++r) {
      codes[r] = strips.panel[r] + offset + strip_offset(strips.first_row[r], 4);
      high[r] = codes[r] + kBlock.high;
    }
    GroupSum<kBlock.code_bits> sum[R][T];
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) sum[r][t].start(blocks[t][b]);
    }
    for_each_pair<kBlock.code_bits, R, T>(
        codes, high, q, b * kGroupColumns,
        [&](int r, int t, int pair, const Pair& w, Quad even, Quad odd)
            __attribute__((always_inline)) { sum[r][t].add(pair, w, even, odd); });
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const std::byte* floats = strips.panel[r] + offset + strip_offset(strips.first_row[r], 2);
      const Strip d = load_strip_half(halves(floats + kBlock.d));
      Strip m = zero_strip();
      if constexpr (kHasMinimum) m = block_minimum<kType>(d, floats + kBlock.m);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const ActivationBlock& x = blocks[t][b];
        acc[r][t] = fma(d * broadcast_strip(x.scale), to_float(sum[r][t].total()), acc[r][t]);
        if constexpr (kHasMinimum) acc[r][t] = fma(m, broadcast_strip(x.sum), acc[r][t]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) store_result(args, first_token + t, strips.first_row[r], acc[r][t]);
  }
}

/// Sum over the block of minimum (Q6_K: scale) times activations.
template <ElementType kType, int T>
QUIRE_ALWAYS_INLINE void sum_minimums(const std::byte* bytes, const int16_t* const (&sums16)[T],
                                      int64_t first_sum, StripInt (&imin)[T]) {
  for (int t = 0; t < T; ++t) imin[t] = zero_ints();
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const ScalePair pair = kType == ElementType::Q6_K ? signed_scale_pair(bytes + 32 * i)
                                                      : same_scale_twice(bytes + 16 * i);
    for (int t = 0; t < T; ++t) add_pair_products(imin[t], pair, sums16[t] + first_sum + 2 * i);
  }
}

template <ElementType kType, int R, int T>
static void tile_256(const MatmulArgs& args, const StripSet& strips, int64_t first_token) {
  constexpr PanelBlock kBlock = panel_block(kType);
  constexpr bool kSigned = kType == ElementType::Q6_K;
  constexpr int kSubsAGroup = kGroupColumns / kBlock.sub_columns;
  const int64_t num_blocks = args.x.cols / kBlock.columns;

  const int8_t* q[T];
  const float* scales[T];
  const int16_t* sums16[T];
  Strip acc[R][T];
  for (int t = 0; t < T; ++t) {
    q[t] = args.x.q256 + (first_token + t) * args.x.cols;
    scales[t] = args.x.scales256 + (first_token + t) * num_blocks;
    sums16[t] = args.x.sums16 + (first_token + t) * num_blocks * 16;
    for (int r = 0; r < R; ++r) acc[r][t] = zero_strip();
  }
  for (int64_t b = 0; b < num_blocks; ++b) {
    const int64_t offset = b * kBlock.bytes;
    if constexpr (T == 1) prefetch_blocks<kBlock.bytes, R>(strips, offset);
    ScaledSum<kBlock.code_bits, kBlock.sub_columns> sum[R][T];
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) sum[r][t].start();
    }
    for (int group = 0; group < 8; ++group) {
      const std::byte* codes[R];
      const std::byte* high[R];
      StripInt scale[R][kSubsAGroup];
      for (int r = 0; r < R; ++r) {
        const std::byte* block = strips.panel[r] + offset;
        const int64_t lane4 = strip_offset(strips.first_row[r], 4);
        codes[r] = block + lane4 + group * kBlock.group_code_bytes();
        high[r] = block + lane4 + kBlock.high + group * kBlock.group_high_bytes();
        for (int s = 0; s < kSubsAGroup; ++s) {
          const std::byte* bytes = block + kBlock.scales + 16 * (group * kSubsAGroup + s) +
                                   strip_offset(strips.first_row[r], 1);
          scale[r][s] = kSigned ? load_signed_scales(bytes) : load_scales(bytes);
        }
      }
      for_each_pair<kBlock.code_bits, R, T>(
          codes, high, q, b * kBlock.columns + group * kGroupColumns,
          [&](int r, int t, int pair, const Pair& w, Quad even, Quad odd)
              __attribute__((always_inline)) {
                sum[r][t].add(pair, w, even, odd, scale[r][pair * 8 / kBlock.sub_columns]);
              });
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const std::byte* block = strips.panel[r] + offset;
      const int64_t lane = strip_offset(strips.first_row[r], 1);
      const Strip d = load_strip_half(halves(block + kBlock.d + 2 * lane));
      StripInt imin[T];
      sum_minimums<kType, T>(block + (kSigned ? kBlock.scales : kBlock.mins) + lane, sums16, b * 16,
                             imin);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const Strip da = broadcast_strip(scales[t][b]);
        const StripInt isum = sum[r][t].total();
        if constexpr (kSigned) {
          acc[r][t] = fma(d * da, to_float(minus_32_times(isum, imin[t])), acc[r][t]);
        } else {
          const Strip minus_dmin =
              load_strip_half(halves(block + kBlock.m + 2 * lane)) * broadcast_strip(-1.0f);
          acc[r][t] = fma(d * da, to_float(isum), acc[r][t]);
          acc[r][t] = fma(minus_dmin * da, to_float(imin[t]), acc[r][t]);
        }
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) store_result(args, first_token + t, strips.first_row[r], acc[r][t]);
  }
}

template <ElementType kType, int R, int T>
QUIRE_ALWAYS_INLINE void int8_tile(const MatmulArgs& args, const StripSet& strips,
                                   int64_t first_token) {
  if constexpr (is_k_quant(kType)) {
    tile_256<kType, R, T>(args, strips, first_token);
  } else {
    tile_32<kType, R, T>(args, strips, first_token);
  }
}

/// Tokens [begin, end) with tiles of T tokens, the rest with one smaller tile.
template <ElementType kType, int R, int T>
QUIRE_ALWAYS_INLINE void int8_tokens(const MatmulArgs& args, const StripSet& strips, int64_t begin,
                                     int64_t end) {
  for (; begin + T <= end; begin += T) int8_tile<kType, R, T>(args, strips, begin);
  if constexpr (T > 1) {
    if (begin < end) int8_tokens<kType, R, T - 1>(args, strips, begin, end);
  }
}

/// Several tokens: a block of tokens passes over each tile's strips while their weights stay near.
template <ElementType kType>
static void int8_gemm(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end) {
  const int64_t num_tokens = args.x.num_rows;
  for (int64_t begin = 0; begin < num_tokens; begin += kBlockTokens) {
    const int64_t end = begin + kBlockTokens < num_tokens ? begin + kBlockTokens : num_tokens;
    int64_t panel = panel_begin;
    if constexpr (kTilePanels > 1) {
      for (; panel + kTilePanels <= panel_end; panel += kTilePanels) {
        int8_tokens<kType, kTilePanels * kStripsAPanel, kTileTokens>(
            args, whole_panels<kTilePanels>(args, panel, 1), begin, end);
      }
    }
    for (; panel < panel_end; ++panel) {
      for (int strip = 0; strip < kStripsAPanel; ++strip) {
        int8_tokens<kType, 1, kTileTokens>(args, one_strip(args, panel, strip), begin, end);
      }
    }
  }
}

/// One token: memory is the limit, so each tile reads far-apart panels at once.
template <ElementType kType>
static void int8_gemv(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end) {
  const int64_t apart = (panel_end - panel_begin) / kGemvPanels;
  for (int64_t panel = panel_begin; panel < panel_begin + apart; ++panel) {
    int8_tile<kType, kGemvPanels * kStripsAPanel, 1>(
        args, whole_panels<kGemvPanels>(args, panel, apart), 0);
  }
  for (int64_t panel = panel_begin + apart * kGemvPanels; panel < panel_end; ++panel) {
    int8_tile<kType, kStripsAPanel, 1>(args, whole_panels<1>(args, panel, 0), 0);
  }
}

template <ElementType kType>
static void int8_matmul(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end) {
  if (args.x.num_rows == 1) {
    int8_gemv<kType>(args, panel_begin, panel_end);
  } else {
    int8_gemm<kType>(args, panel_begin, panel_end);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
