// exp.inl: the exponential and the two activation functions made of it, on 16 lanes.
//
// Own polynomials instead of the math library's, so that every machine and instruction set gives
// the same bits. Included by the other .inl files of this folder; see ../simd/README.md.
#pragma once

namespace quire::kernels::QUIRE_ISA {

/// e^(x - n ln 2) for |x - n ln 2| <= ln(2)/2: ln 2 in two parts, polynomial from Cephes expf (S.
/// Moshier).
QUIRE_ALWAYS_INLINE F32x16 exp_of_remainder(F32x16 x, F32x16 n) {
  const F32x16 r = fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), x));
  F32x16 p = fma(broadcast(1.9875691500e-4f), r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  return fma(p, r * r, r) + broadcast(1.0f);
}

/// Where e^x would be subnormal: x < ln(2^-126).
QUIRE_ALWAYS_INLINE Mask16 exp_vanishes(F32x16 x) {
  return less(x, broadcast(-87.336544f));
}

/// e^x within 1.1 ulp for x in [-87.33, 88]: exactly 1 for 0, exactly 0 below ln(2^-126), so that
/// no result is subnormal, and e^88 above. NaN stays NaN.
QUIRE_ALWAYS_INLINE F32x16 exp(F32x16 x) {
  const F32x16 y = min(broadcast(88.0f), x);
  // max takes its second operand for NaN: the integer below is always in range.
  const F32x16 n = max(round_even(y * broadcast(1.44269504f)), broadcast(-126.0f));
  return select(exp_vanishes(x), zero(), exp_of_remainder(y, n) * exp2_int(to_int(n)));
}

/// exp(x) for x <= 0 or NaN, with the same bits in fewer instructions.
QUIRE_ALWAYS_INLINE F32x16 exp_of_nonpositive(F32x16 x) {
  const F32x16 n = round_even(x * broadcast(1.44269504f));
  return times_exp2_unless(exp_vanishes(x), exp_of_remainder(x, n), n);
}

/// x / (1 + e^-x). Constant below -88, where the true value is under 1e-36.
QUIRE_ALWAYS_INLINE F32x16 silu(F32x16 x) {
  const F32x16 y = max(broadcast(-88.0f), x);
  return y / (broadcast(1.0f) + exp(zero() - y));
}

/// x / 2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3). Constant below -16,
/// where the true value is under 1e-36. // Hendrycks and Gimpel, arXiv:1606.08415
QUIRE_ALWAYS_INLINE F32x16 gelu_tanh(F32x16 x) {
  const F32x16 y = max(broadcast(-16.0f), x);
  const F32x16 inner = fma(y * y, y * broadcast(0.044715f), y);
  const F32x16 minus_2u = inner * broadcast(-1.5957691216f);
  return y / (broadcast(1.0f) + exp(minus_2u));
}

}  // namespace quire::kernels::QUIRE_ISA
