// pointwise.inl: functions of single numbers (gelu, sigmoid, soft cap), the softmax that routes
// tokens to experts, and the sum that joins what experts say; contracts in ../kernel_set.h.
#pragma once
#include <cmath>

#include "kernels/impl/lanes.inl"
#include "kernels/impl/tanh_erf.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

static void gelu_tanh_all(const float* x, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(out + i, gelu_tanh(load_first(x + i, n)), n);
  }
}

static void gelu_erf_all(const float* x, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(out + i, gelu_erf(load_first(x + i, n)), n);
  }
}

static void sigmoid(float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    const F32x16 inverse = exp(zero() - load_first(y + i, n)) + broadcast(1.0f);
    store_first(y + i, broadcast(1.0f) / inverse, n);
  }
}

QUIRE_ALWAYS_INLINE F32x16 capped(F32x16 x, F32x16 cap) {
  return tanh(x / cap) * cap;
}

static void soft_cap(float* y, float cap, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(y + i, capped(load_first(y + i, n), broadcast(cap)), n);
  }
}

static void softmax(float* y, int64_t count) {
  F32x16 largest = broadcast(-INFINITY);
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    const F32x16 here = load_first(y + i, n);
    largest = max(largest, select(lanes_between(0, n), here, broadcast(-INFINITY)));
  }
  const F32x16 shift = broadcast(max_lane(largest));
  F32x16 total = zero();
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    const F32x16 p = exp(load_first(y + i, n) - shift);
    total = total + select(lanes_between(0, n), p, zero());
    store_first(y + i, p, n);
  }
  const F32x16 denominator = broadcast(sum(total));
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(y + i, load_first(y + i, n) / denominator, n);
  }
}

static void add_scaled(const float* x, float factor, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    store_first(y + i, fma(load_first(x + i, n), broadcast(factor), load_first(y + i, n)), n);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
