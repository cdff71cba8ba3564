// matmul_float.inl: any weights times f32 activations.
//
// Per output acc = fma(w, x, acc) over ascending columns, w as the format defines it. Quantized
// weights are dequantized kChunkColumns columns of a panel at a time; between chunks the
// accumulators rest in memory as the f32 that they are, so chunks do not change a bit.
#pragma once
#include "kernels/dequantize.h"
#include "kernels/impl/matmul_tile.inl"

namespace quire::kernels::QUIRE_ISA {

constexpr int64_t kChunkColumns = 256;

/// Some columns of kStrips strips, and the sums so far.
struct FloatPart {
  const std::byte* weights[kMaxStrips];  // at the first column and the strip's first row
  int64_t columns;
  const float* x;  // at the block's first token and the first column // [tokens, x_stride]
  int64_t x_stride;
  float* sums;  // [tokens, strips * kStripRows]
};

template <ElementType kType>
QUIRE_ALWAYS_INLINE Strip load_weights(const std::byte* p) {
  if constexpr (kType == ElementType::F16) return load_strip_half(halves(p));
  if constexpr (kType == ElementType::BF16) return load_strip_bfloat(halves(p));
  return load_strip(reinterpret_cast<const float*>(p));
}

template <ElementType kType, int R, int T>
QUIRE_TILE void float_tile(const FloatPart& part, int64_t first_token) {
  constexpr int kColumnBytes = panel_block(kType).bytes;
  const float* x[T];
  Strip acc[R][T];
  float* sums = part.sums + first_token * R * kStripRows;
  for (int t = 0; t < T; ++t) {
    x[t] = part.x + (first_token + t) * part.x_stride;
    for (int r = 0; r < R; ++r) acc[r][t] = load_strip(sums + (t * R + r) * kStripRows);
  }
  for (int64_t c = 0; c < part.columns; ++c) {
    Strip w[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const std::byte* p = part.weights[r] + c * kColumnBytes;
      if (T == 1 && r % kStripsAPanel == 0) prefetch(p + kPrefetchBytes);
      w[r] = load_weights<kType>(p);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const Strip value = broadcast_strip(x[t][c]);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) acc[r][t] = fma(w[r], value, acc[r][t]);
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < R; ++r) store(sums + (t * R + r) * kStripRows, acc[r][t]);
  }
}

/// Tokens [begin, end) with tiles of T tokens, the rest with smaller ones.
template <ElementType kType, int R, int T>
QUIRE_ALWAYS_INLINE void float_tokens(const FloatPart& part, int64_t begin, int64_t end) {
  for (; begin + T <= end; begin += T) float_tile<kType, R, T>(part, begin);
  if constexpr (T > 1) {
    if (begin < end) float_tokens<kType, R, fewer_tokens(T)>(part, begin, end);
  }
}

/// All columns of float weights: straight from the panels.
template <ElementType kType, int kPanels>
static void add_columns(const MatmulArgs&, const StripSet& strips, FloatPart& part,
                        int64_t num_tokens) {
  for (int r = 0; r < kPanels * kStripsAPanel; ++r) {
    part.weights[r] =
        strips.panel[r] + strip_offset(strips.first_row[r], panel_block(kType).bytes / kPanelRows);
  }
  float_tokens<kType, kPanels * kStripsAPanel, kFloatTokens>(part, 0, num_tokens);
}

/// The same for quantized weights: chunk by chunk through a dequantized copy.
template <int kPanels>
static void add_dequantized_columns(const MatmulArgs& args, const StripSet& strips, FloatPart& part,
                                    int64_t num_tokens) {
  alignas(64) float copy[kPanels][kChunkColumns * kPanelRows];
  const int64_t cols = args.weights->cols();
  for (int64_t c = 0; c < cols; c += kChunkColumns, part.x += kChunkColumns) {
    part.columns = cols - c < kChunkColumns ? cols - c : kChunkColumns;
    for (int p = 0; p < kPanels; ++p) {
      const int64_t panel = strips.first_row[p * kStripsAPanel] / kPanelRows;
      dequantize_panel(*args.weights, panel, c, part.columns, copy[p]);
    }
    for (int r = 0; r < kPanels * kStripsAPanel; ++r) {
      part.weights[r] = reinterpret_cast<const std::byte*>(copy[r / kStripsAPanel]) +
                        strip_offset(strips.first_row[r], sizeof(float));
    }
    float_tokens<ElementType::F32, kPanels * kStripsAPanel, kFloatTokens>(part, 0, num_tokens);
  }
}

template <ElementType kType, int kPanels>
static void float_block(const MatmulArgs& args, const StripSet& strips, int64_t begin,
                        int64_t end) {
  constexpr int kStrips = kPanels * kStripsAPanel;
  alignas(64) float sums[kBlockTokens * kStrips * kStripRows];
  for (int64_t i = 0; i < (end - begin) * kStrips * kStripRows; ++i) sums[i] = 0.0f;
  FloatPart part{};
  part.columns = args.x.cols;
  part.x = args.x.f32 + begin * args.x.cols;
  part.x_stride = args.x.cols;
  part.sums = sums;
  if constexpr (is_quantized(kType)) {
    add_dequantized_columns<kPanels>(args, strips, part, end - begin);
  } else {
    add_columns<kType, kPanels>(args, strips, part, end - begin);
  }
  store_sums(args, strips, kStrips, begin, end - begin, sums);
}

/// kType F32, F16 or BF16, or any quantized type: they share the code of Q8_0.
template <ElementType kType>
static void float_matmul(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end) {
  const int64_t num_tokens = args.x.num_rows;
  for (int64_t begin = 0; begin < num_tokens; begin += kBlockTokens) {
    const int64_t end = begin + kBlockTokens < num_tokens ? begin + kBlockTokens : num_tokens;
    const int64_t apart = num_tokens == 1 ? (panel_end - panel_begin) / kFloatPanels : 1;
    const int64_t tiles = (panel_end - panel_begin) / kFloatPanels;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t panel = panel_begin + (num_tokens == 1 ? i : i * kFloatPanels);
      float_block<kType, kFloatPanels>(args, whole_panels<kFloatPanels>(args, panel, apart), begin,
                                       end);
    }
    for (int64_t panel = panel_begin + tiles * kFloatPanels; panel < panel_end; ++panel) {
      float_block<kType, 1>(args, whole_panels<1>(args, panel, 0), begin, end);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
