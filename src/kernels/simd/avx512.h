// avx512.h: the 16-lane vector as one AVX-512 register.
//
// Include only from isa_avx512.cc. Same bits as scalar.h, lane by lane.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/paged_kv_view.h"

namespace quire::kernels::avx512 {

inline constexpr int kRegisters = 64;  // 32 registers of 16 lanes

using Unaligned16 __attribute__((aligned(1), may_alias)) = int16_t;
using Unaligned32 __attribute__((aligned(1), may_alias)) = int32_t;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};

QUIRE_ALWAYS_INLINE F32x16 zero() {
  return {_mm512_setzero_ps()};
}
QUIRE_ALWAYS_INLINE F32x16 broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
QUIRE_ALWAYS_INLINE F32x16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
QUIRE_ALWAYS_INLINE void store(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.v);
}
/// The first `count` lanes, 0 to 16, from memory; the others are zero.
QUIRE_ALWAYS_INLINE F32x16 load_first(const float* p, int count) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p)};
}
QUIRE_ALWAYS_INLINE void store_first(float* p, F32x16 a, int count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), a.v);
}

QUIRE_ALWAYS_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
/// a * b + c, rounded once.
QUIRE_ALWAYS_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
QUIRE_ALWAYS_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE F32x16 abs(F32x16 a) {
  return {_mm512_abs_ps(a.v)};
}
/// To the nearest integer, ties to even.
QUIRE_ALWAYS_INLINE F32x16 round_even(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// Integer-valued floats within int32 to integers.
QUIRE_ALWAYS_INLINE I32x16 to_int(F32x16 a) {
  return {_mm512_cvtps_epi32(a.v)};
}
QUIRE_ALWAYS_INLINE F32x16 to_float(I32x16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
/// 2^n for n in [-126, 127].
QUIRE_ALWAYS_INLINE F32x16 exp2_int(I32x16 n) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}

QUIRE_ALWAYS_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
/// Lanes [begin, end) of 16; the bounds may lie outside.
QUIRE_ALWAYS_INLINE Mask16 lanes_between(int begin, int end) {
  const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __mmask16 from = _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(begin));
  return {_mm512_mask_cmplt_epi32_mask(from, index, _mm512_set1_epi32(end))};
}
/// m ? a : b.
QUIRE_ALWAYS_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm512_mask_blend_ps(m.v, b.v, a.v)};
}
/// Zero in lanes of `m`, a * 2^n in the others; there n is integer-valued in [-126, 127] or a NaN.
QUIRE_ALWAYS_INLINE F32x16 times_exp2_unless(Mask16 m, F32x16 a, F32x16 n) {
  return {_mm512_maskz_scalef_ps(_knot_mask16(m.v), a.v, n.v)};
}

QUIRE_ALWAYS_INLINE float square_root(float x) {
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

/// Sum in the fixed tree: lanes i and i+8, then i and i+4, i+2, i+1.
QUIRE_ALWAYS_INLINE float sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
QUIRE_ALWAYS_INLINE float max_lane(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
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
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
QUIRE_ALWAYS_INLINE void store_half(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QUIRE_ALWAYS_INLINE F32x16 load_bfloat(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
/// To bfloat16, to nearest even; requires no NaN.
QUIRE_ALWAYS_INLINE void store_bfloat(uint16_t* p, F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
/// Integer-valued floats in [-128, 127] to bytes.
QUIRE_ALWAYS_INLINE void store_int8(int8_t* p, F32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
/// Integer-valued floats in [0, 255] to bytes.
QUIRE_ALWAYS_INLINE void store_uint8(uint8_t* p, F32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
/// Sixteen codes to floats; packings as kv_code_bytes() says.
QUIRE_ALWAYS_INLINE F32x16 bytes_to_float(__m128i bytes) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
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
/// Where registers are scarce: see avx2.h.
QUIRE_ALWAYS_INLINE const float* reread(const float* p) {
  return p;
}
QUIRE_ALWAYS_INLINE void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace quire::kernels::avx512
