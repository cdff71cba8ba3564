// avx2.h: the 16-lane vector as two 8-lane AVX2 registers.
//
// Include only from isa_avx2.cc. Same bits as scalar.h, lane by lane.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/paged_kv_view.h"

namespace quire::kernels::avx2 {

inline constexpr int kRegisters = 16;

using Unaligned16 __attribute__((aligned(1), may_alias)) = int16_t;
using Unaligned32 __attribute__((aligned(1), may_alias)) = int32_t;

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct Mask16 {
  __m256 lo, hi;
};

QUIRE_ALWAYS_INLINE F32x16 zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
QUIRE_ALWAYS_INLINE F32x16 broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
QUIRE_ALWAYS_INLINE F32x16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
QUIRE_ALWAYS_INLINE void store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
/// All bits of lanes i with offset + i < count.
QUIRE_ALWAYS_INLINE __m256i first_lanes(int count, int offset) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count - offset), index);
}
/// The first `count` lanes, 0 to 16, from memory; the others are zero.
QUIRE_ALWAYS_INLINE F32x16 load_first(const float* p, int count) {
  if (count == 16) return load(p);
  return {_mm256_maskload_ps(p, first_lanes(count, 0)),
          _mm256_maskload_ps(p + 8, first_lanes(count, 8))};
}
QUIRE_ALWAYS_INLINE void store_first(float* p, F32x16 a, int count) {
  if (count == 16) return store(p, a);  // masked stores are slow on AMD
  _mm256_maskstore_ps(p, first_lanes(count, 0), a.lo);
  _mm256_maskstore_ps(p + 8, first_lanes(count, 8), a.hi);
}

QUIRE_ALWAYS_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
/// a * b + c, rounded once.
QUIRE_ALWAYS_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
/// To the nearest integer, ties to even.
QUIRE_ALWAYS_INLINE F32x16 round_even(F32x16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
/// Integer-valued floats within int32 to integers.
QUIRE_ALWAYS_INLINE I32x16 to_int(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
QUIRE_ALWAYS_INLINE F32x16 to_float(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
/// 2^n for n in [-126, 127].
QUIRE_ALWAYS_INLINE F32x16 exp2_int(I32x16 n) {
  const __m256i bias = _mm256_set1_epi32(127);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.lo, bias), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.hi, bias), 23))};
}

QUIRE_ALWAYS_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
/// Lanes [begin, end) of 16; the bounds may lie outside.
QUIRE_ALWAYS_INLINE Mask16 lanes_between(int begin, int end) {
  const __m256i lo = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i hi = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i before = _mm256_set1_epi32(begin);
  const __m256i after = _mm256_set1_epi32(end);
  return {_mm256_castsi256_ps(
              _mm256_andnot_si256(_mm256_cmpgt_epi32(before, lo), _mm256_cmpgt_epi32(after, lo))),
          _mm256_castsi256_ps(
              _mm256_andnot_si256(_mm256_cmpgt_epi32(before, hi), _mm256_cmpgt_epi32(after, hi)))};
}
/// m ? a : b.
QUIRE_ALWAYS_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}
/// Zero in lanes of `m`, a * 2^n in the others; there n is integer-valued in [-126, 127] or a NaN.
QUIRE_ALWAYS_INLINE F32x16 times_exp2_unless(Mask16 m, F32x16 a, F32x16 n) {
  const F32x16 product = a * exp2_int(to_int(n));
  return {_mm256_andnot_ps(m.lo, product.lo), _mm256_andnot_ps(m.hi, product.hi)};
}

QUIRE_ALWAYS_INLINE float square_root(float x) {
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

/// Sum in the fixed tree: lanes i and i+8, then i and i+4, i+2, i+1.
QUIRE_ALWAYS_INLINE float sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
QUIRE_ALWAYS_INLINE float max_lane(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

QUIRE_ALWAYS_INLINE float half_to_float(uint16_t h) {
  return _cvtsh_ss(h);
}
QUIRE_ALWAYS_INLINE uint16_t float_to_half(float f) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), kMode)));
}
QUIRE_ALWAYS_INLINE F32x16 load_half(const uint16_t* p) {
  const auto* v = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(v)), _mm256_cvtph_ps(_mm_loadu_si128(v + 1))};
}
QUIRE_ALWAYS_INLINE void store_half(uint16_t* p, F32x16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto* v = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(v, _mm256_cvtps_ph(a.lo, kMode));
  _mm_storeu_si128(v + 1, _mm256_cvtps_ph(a.hi, kMode));
}
QUIRE_ALWAYS_INLINE __m256 bfloat8(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
QUIRE_ALWAYS_INLINE F32x16 load_bfloat(const uint16_t* p) {
  return {bfloat8(p), bfloat8(p + 8)};
}
QUIRE_ALWAYS_INLINE __m256i rounded_bfloat(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  return _mm256_srli_epi32(rounded, 16);
}
/// To bfloat16, to nearest even; requires no NaN.
QUIRE_ALWAYS_INLINE void store_bfloat(uint16_t* p, F32x16 a) {
  const __m256i packed = _mm256_packus_epi32(rounded_bfloat(a.lo), rounded_bfloat(a.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
}
/// Integer-valued floats in [-128, 127] to bytes.
QUIRE_ALWAYS_INLINE void store_int8(int8_t* p, F32x16 a) {
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)), 0xD8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
/// Integer-valued floats in [0, 255] to bytes.
QUIRE_ALWAYS_INLINE void store_uint8(uint8_t* p, F32x16 a) {
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)), 0xD8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
/// Sixteen codes to floats; packings as kv_code_bytes() says.
QUIRE_ALWAYS_INLINE F32x16 bytes_to_float(__m128i bytes) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
}
QUIRE_ALWAYS_INLINE __m128i nibbles(const uint8_t* p) {
  const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i both = _mm_unpacklo_epi64(packed, _mm_srli_epi16(packed, 4));
  return _mm_and_si128(both, _mm_set1_epi8(15));
}
QUIRE_ALWAYS_INLINE __m128i bit_pairs(const uint8_t* p) {
  const __m128i packed = _mm_set1_epi32(*reinterpret_cast<const Unaligned32*>(p));
  const __m128i shifted = _mm_srlv_epi32(packed, _mm_setr_epi32(0, 2, 4, 6));
  return _mm_and_si128(shifted, _mm_set1_epi8(3));
}
/// 0 or -1 a byte.
QUIRE_ALWAYS_INLINE __m128i single_bits(const uint8_t* p) {
  const __m128i word = _mm_set1_epi16(*reinterpret_cast<const Unaligned16*>(p));
  const __m128i spread =
      _mm_shuffle_epi8(word, _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  const __m128i mask = _mm_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  return _mm_cmpeq_epi8(_mm_and_si128(spread, mask), mask);
}
QUIRE_ALWAYS_INLINE F32x16 load_codes8(const uint8_t* p) {
  return bytes_to_float(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
QUIRE_ALWAYS_INLINE F32x16 load_codes6(const uint8_t* p) {
  const __m128i upper = _mm_slli_epi16(bit_pairs(p + 8), 4);
  return bytes_to_float(_mm_or_si128(nibbles(p), upper));
}
QUIRE_ALWAYS_INLINE F32x16 load_codes4(const uint8_t* p) {
  return bytes_to_float(nibbles(p));
}
QUIRE_ALWAYS_INLINE F32x16 load_codes3(const uint8_t* p) {
  const __m128i upper = _mm_and_si128(single_bits(p + 4), _mm_set1_epi8(4));
  return bytes_to_float(_mm_or_si128(bit_pairs(p), upper));
}
QUIRE_ALWAYS_INLINE F32x16 load_codes2(const uint8_t* p) {
  return bytes_to_float(bit_pairs(p));
}
/// The same pointer, behind which the compiler must load anew: 16 registers are too few to keep
/// what it could keep, and it would spill sums instead.
QUIRE_ALWAYS_INLINE const float* reread(const float* p) {
  asm("" : "+r"(p));
  return p;
}
QUIRE_ALWAYS_INLINE void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace quire::kernels::avx2
