// layer_norm.inl: LayerNorm over rows; contract in ../kernel_set.h. // Ba et al., arXiv:1607.06450
#pragma once
#include "kernels/impl/lanes.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

/// Mean of x: lane j sums x[j], x[j + 16], ...
QUIRE_ALWAYS_INLINE float mean_of(const float* x, int64_t cols) {
  F32x16 total = zero();
  for (int64_t c = 0; c < cols; c += 16) total = total + load_first(x + c, lanes_left(c, cols));
  return sum(total) / static_cast<float>(cols);
}

/// 1 / sqrt(mean((x - mean)^2) + eps), from the differences: large means cost no digits.
QUIRE_ALWAYS_INLINE float inverse_deviation(const float* x, int64_t cols, float mean, float eps) {
  F32x16 squares = zero();
  for (int64_t c = 0; c < cols; c += 16) {
    const int n = lanes_left(c, cols);
    const F32x16 difference = load_first(x + c, n) - broadcast(mean);
    const F32x16 inside = select(lanes_between(0, n), difference, zero());
    squares = fma(inside, inside, squares);
  }
  return 1.0f / square_root(sum(squares) / static_cast<float>(cols) + eps);
}

static void layer_norm(const LayerNormArgs& args, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    const float mean = mean_of(x, args.cols);
    const F32x16 factor = broadcast(inverse_deviation(x, args.cols, mean, args.eps));
    for (int64_t c = 0; c < args.cols; c += 16) {
      const int n = lanes_left(c, args.cols);
      const F32x16 normed = (load_first(x + c, n) - broadcast(mean)) * factor;
      store_first(y + c, fma(normed, load_first(args.weight + c, n), load_first(args.bias + c, n)),
                  n);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
