// elementwise.inl: norm, rotation and activation kernels; contracts in ../kernel_set.h.
//
// A count that is no multiple of 16 ends in a vector padded with zeros: the same lane arithmetic
// everywhere.
#pragma once
#include "kernels/impl/exp.inl"
#include "kernels/impl/lanes.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

/// 1 / sqrt(mean(x^2) + eps): lane j sums the squares of x[j], x[j + 16], ...
QUIRE_ALWAYS_INLINE float inverse_rms(const float* x, int64_t cols, float eps) {
  F32x16 squares = zero();
  for (int64_t c = 0; c < cols; c += 16) {
    const F32x16 v = load_first(x + c, lanes_left(c, cols));
    squares = fma(v, v, squares);
  }
  return 1.0f / square_root(sum(squares) / static_cast<float>(cols) + eps);
}

static void rms_norm(const RmsNormArgs& args, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    const F32x16 factor = broadcast(inverse_rms(x, args.cols, args.eps));
    for (int64_t c = 0; c < args.cols; c += 16) {
      const int n = lanes_left(c, args.cols);
      store_first(y + c, load_first(x + c, n) * factor * load_first(args.weight + c, n), n);
    }
  }
}

/// Rotates the pairs (x[i], x[i + half]) of one head.
QUIRE_ALWAYS_INLINE void rotate_head(float* x, int32_t half, const float* cos, const float* sin) {
  for (int32_t i = 0; i < half; i += 16) {
    const int n = lanes_left(i, half);
    const F32x16 a = load_first(x + i, n);
    const F32x16 b = load_first(x + i + half, n);
    const F32x16 c = load_first(cos + i, n);
    const F32x16 s = load_first(sin + i, n);
    store_first(x + i, fma(a, c, zero() - b * s), n);
    store_first(x + i + half, fma(b, c, a * s), n);
  }
}

static void rope(const RopeArgs& args, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* x = args.x + row * args.x_stride;
    for (int32_t head = 0; head < args.num_heads; ++head) {
      rotate_head(x + int64_t{head} * args.head_dim, args.half, args.cos + row * args.half,
                  args.sin + row * args.half);
    }
  }
}

static void swiglu(const float* gate, const float* up, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(out + i, silu(load_first(gate + i, n)) * load_first(up + i, n), n);
  }
}

static void geglu_tanh(const float* gate, const float* up, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(out + i, gelu_tanh(load_first(gate + i, n)) * load_first(up + i, n), n);
  }
}

static void add(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(y + i, load_first(y + i, n) + load_first(x + i, n), n);
  }
}

static void scale(float* y, float factor, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(y + i, load_first(y + i, n) * broadcast(factor), n);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
