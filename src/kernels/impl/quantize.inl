// quantize.inl: rows of floats to int8, each row by itself.
//
// q = round half to even of x * (127 / max|x|), d = max|x| / 127. A block whose largest number is
// below 2^-100 becomes zeros, so that 127 / max is finite. Infinities and NaNs give some int8 and
// no fault.
#pragma once
#include "kernels/activations.h"

namespace quire::kernels::QUIRE_ISA {

constexpr float kSmallestMax = 0x1p-100f;

struct Int8Scale {
  float d;        // what one step is worth
  float inverse;  // steps a unit
};

QUIRE_ALWAYS_INLINE Int8Scale int8_scale(float max) {
  if (max >= kSmallestMax) return {max / 127.0f, 127.0f / max};
  return {0.0f, 0.0f};
}

/// Sixteen numbers in steps. // integers in [-127, 127], as floats
QUIRE_ALWAYS_INLINE F32x16 to_steps(F32x16 x, F32x16 inverse) {
  const F32x16 limited = max(min(x * inverse, broadcast(127.0f)), broadcast(-127.0f));
  return round_even(limited);
}

QUIRE_ALWAYS_INLINE void quantize_block_32(const float* x, int8_t* q, ActivationBlock& block) {
  const F32x16 a = load(x);
  const F32x16 b = load(x + 16);
  const Int8Scale scale = int8_scale(max_lane(max(abs(a), abs(b))));
  const F32x16 inverse = broadcast(scale.inverse);
  const F32x16 steps_a = to_steps(a, inverse);
  const F32x16 steps_b = to_steps(b, inverse);
  store_int8(q, steps_a);
  store_int8(q + 16, steps_b);
  const float total = sum(steps_a + steps_b);  // exact: at most 32 * 127
  block = {scale.d, scale.d * total, static_cast<int32_t>(total)};
}

QUIRE_ALWAYS_INLINE float quantize_block_256(const float* x, int8_t* q, int16_t* sums16) {
  F32x16 largest = zero();
  for (int i = 0; i < 256; i += 16) largest = max(largest, abs(load(x + i)));
  const Int8Scale scale = int8_scale(max_lane(largest));
  const F32x16 inverse = broadcast(scale.inverse);
  for (int i = 0; i < 256; i += 16) {
    const F32x16 steps = to_steps(load(x + i), inverse);
    store_int8(q + i, steps);
    sums16[i / 16] = static_cast<int16_t>(sum(steps));
  }
  return scale.d;
}

static void quantize_columns_per_32(const float* x, int64_t x_stride, Activations& out,
                                    int64_t row_begin, int64_t row_end, int64_t column_begin,
                                    int64_t column_end) {
  const int64_t cols = out.cols();
  int8_t* q = out.q32();
  ActivationBlock* blocks = out.blocks32();
  for (int64_t row = row_begin; row < row_end; ++row, x += x_stride) {
    for (int64_t c = column_begin; c < column_end; c += 32) {
      const int64_t at = row * cols + c;
      quantize_block_32(x + c - column_begin, q + at, blocks[at / 32]);
    }
  }
}

static void quantize_per_32(const float* x, int64_t x_stride, Activations& out, int64_t row_begin,
                            int64_t row_end) {
  quantize_columns_per_32(x + row_begin * x_stride, x_stride, out, row_begin, row_end, 0,
                          out.cols());
}

static void quantize_per_256(const float* x, int64_t x_stride, Activations& out, int64_t row_begin,
                             int64_t row_end) {
  const int64_t cols = out.cols();
  int8_t* q = out.q256();
  float* scales = out.scales256();
  int16_t* sums16 = out.sums16();
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t c = 0; c < cols; c += 256) {
      const int64_t at = row * cols + c;
      scales[at / 256] = quantize_block_256(x + row * x_stride + c, q + at, sums16 + at / 16);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
