// tanh_erf.inl: tanh and the functions made of the error function, on 16 lanes.
//
// Own polynomials, as in exp.inl, so that every machine and instruction set gives the same bits.
// Coefficients from Cephes tanhf and ndtrf (S. Moshier).
#pragma once
#include "kernels/impl/exp.inl"

namespace quire::kernels::QUIRE_ISA {

/// c[0] x^(n-1) + ... + c[n-1], by Horner's rule.
template <int N>
QUIRE_ALWAYS_INLINE F32x16 polynomial(F32x16 x, const float (&c)[N]) {
  F32x16 p = broadcast(c[0]);
  for (int i = 1; i < N; ++i) p = fma(p, x, broadcast(c[i]));
  return p;
}

/// tanh x within 3 ulp; exactly +-1 far from zero. NaN stays NaN.
QUIRE_ALWAYS_INLINE F32x16 tanh(F32x16 x) {
  constexpr float kNearZero[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                 1.33314422036e-1f, -3.33332819422e-1f};
  const F32x16 square = x * x;
  const F32x16 small = fma(polynomial(square, kNearZero) * square, x, x);
  // 1 - 2 / (e^2|x| + 1): e^2|x| is far above 2^24 where exp stops rising.
  const F32x16 magnitude = abs(x);
  const F32x16 one = broadcast(1.0f);
  const F32x16 large = one - broadcast(2.0f) / (exp(magnitude + magnitude) + one);
  const F32x16 with_sign = select(less(x, zero()), zero() - large, large);
  return select(less(magnitude, broadcast(0.625f)), small, with_sign);
}

/// 1 - erf a for a >= 0, within 1e-5 of itself; 0 above 9.3. NaN stays NaN.
QUIRE_ALWAYS_INLINE F32x16 complementary_erf(F32x16 a) {
  constexpr float kBelow1[] = {
      7.853861353153693e-5f, -8.010193625184903e-4f, 5.188327685732524e-3f, -2.685381193529856e-2f,
      1.128358514861418e-1f, -3.761262582423300e-1f, 1.128379165726710e+0f};
  constexpr float kBelow2[] = {
      2.326819970068386e-2f,  -1.387039388740657e-1f, 3.687424674597105e-1f,
      -5.824733027278666e-1f, 6.210004621745983e-1f,  -4.944515323274145e-1f,
      3.404879937665872e-1f,  -2.741127028184656e-1f, 5.638259427386472e-1f};
  constexpr float kAbove2[] = {
      -1.047766399936249e+1f, 1.297719955372516e+1f, -7.495518717768503e+0f, 2.921019019210786e+0f,
      -1.015265279202700e+0f, 4.218463358204948e-1f, -2.820767439740514e-1f, 5.641895067754075e-1f};
  const F32x16 one = broadcast(1.0f);
  const F32x16 square = a * a;
  const F32x16 below_1 = one - a * polynomial(square, kBelow1);
  const F32x16 inverse = one / max(one, a);
  const F32x16 inverse_square = inverse * inverse;
  const F32x16 tail = select(less(a, broadcast(2.0f)), polynomial(inverse_square, kBelow2),
                             polynomial(inverse_square, kAbove2));
  const F32x16 above_1 = exp(zero() - square) * inverse * tail;
  return select(less(a, one), below_1, above_1);
}

/// x / 2 (1 + erf(x / sqrt 2)). Constant below -16, where the true value is under 1e-36.
/// // Hendrycks and Gimpel, arXiv:1606.08415
QUIRE_ALWAYS_INLINE F32x16 gelu_erf(F32x16 x) {
  const F32x16 y = max(broadcast(-16.0f), x);
  const F32x16 tail = complementary_erf(abs(y) * broadcast(0.70710678f));
  const F32x16 twice_share = select(less(y, zero()), tail, broadcast(2.0f) - tail);
  return y * (broadcast(0.5f) * twice_share);
}

}  // namespace quire::kernels::QUIRE_ISA
