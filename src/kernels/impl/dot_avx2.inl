// dot_avx2.inl: the integer products with AVX2; vocabulary as in dot_scalar.inl.
//
// A strip is half a panel: 8 rows. vpmaddubsw adds two products of an unsigned code and a signed
// activation into int16 and saturates; sums of it stay exact in int16 for
//   4 bits: 8 of them (8 * 2 * 15 * 127 = 30480), 5 bits: 4 (31496), 6 bits: 2 (32004), |int8|: 1
//   (32512); 2 and 3 bits are widened after 4, their sub-block of 16 columns
// before one vpmaddwd widens them to int32.
#pragma once
#include "kernels/activations.h"
#include "kernels/panel_layout.h"

namespace quire::kernels::QUIRE_ISA {

constexpr int kStripRows = 8;
constexpr int kWideTokens = 0;  // such a tile does not fit the registers
constexpr int kTileTokens = 4;
constexpr int kTileTokensK = 6;
constexpr int kTileStrips = 1;
constexpr int kTilePanels = 1;
constexpr int64_t kUnpackFrom = 0;  // loads cost as much as unpacking
constexpr int kGemvPanels = 2;
constexpr int kFloatTokens = 6;
constexpr int kFloatPanels = 1;

struct Strip {
  __m256 v;
};
struct StripInt {
  __m256i v;
};

QUIRE_ALWAYS_INLINE Strip zero_strip() {
  return {_mm256_setzero_ps()};
}
QUIRE_ALWAYS_INLINE Strip broadcast_strip(float x) {
  return {_mm256_set1_ps(x)};
}
QUIRE_ALWAYS_INLINE Strip load_strip(const float* p) {
  return {_mm256_loadu_ps(p)};
}
QUIRE_ALWAYS_INLINE Strip load_strip_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
QUIRE_ALWAYS_INLINE Strip load_strip_bfloat(const uint16_t* p) {
  return {bfloat8(p)};
}
QUIRE_ALWAYS_INLINE void store(float* p, Strip a) {
  _mm256_storeu_ps(p, a.v);
}
QUIRE_ALWAYS_INLINE Strip operator+(Strip a, Strip b) {
  return {_mm256_add_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE Strip operator*(Strip a, Strip b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
QUIRE_ALWAYS_INLINE Strip fma(Strip a, Strip b, Strip c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
QUIRE_ALWAYS_INLINE Strip to_float(StripInt a) {
  return {_mm256_cvtepi32_ps(a.v)};
}

struct Quad {
  __m256i v;
};
QUIRE_ALWAYS_INLINE Quad load_quad(const int8_t* p) {
  int32_t four = 0;
  __builtin_memcpy(&four, p, 4);
  return {_mm256_set1_epi32(four)};
}

struct Pair {
  __m256i even, odd;
};

QUIRE_ALWAYS_INLINE __m256i load_32_bytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

/// Bits [from, from + kCount) of every byte moved to bits [kTo, kTo + kCount), the rest zero.
template <int kCount, int kTo>
QUIRE_ALWAYS_INLINE __m256i move_bits(__m256i plane, int from) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << kCount) - 1) << kTo));
  const __m256i moved =
      from < kTo ? _mm256_slli_epi16(plane, kTo - from) : _mm256_srli_epi16(plane, from - kTo);
  return _mm256_and_si256(moved, mask);
}

/// The low bits of a pair's codes, of which a byte holds two (kLowBits 4) or four (2).
template <int kLowBits>
QUIRE_ALWAYS_INLINE Pair load_low_bits(const std::byte* codes, int pair) {
  if constexpr (kLowBits == 2) {
    const __m256i four = load_32_bytes(codes + 64 * (pair / 2));
    return {move_bits<2, 0>(four, 4 * (pair % 2)), move_bits<2, 0>(four, 4 * (pair % 2) + 2)};
  }
  const __m256i two = load_32_bytes(codes + 64 * pair);
  return {move_bits<4, 0>(two, 0), move_bits<4, 0>(two, 4)};
}

template <int kBits>
QUIRE_ALWAYS_INLINE Pair load_pair(const std::byte* codes, const std::byte* high, int pair) {
  if constexpr (kBits == 8) {
    return {load_32_bytes(codes + 128 * pair), load_32_bytes(codes + 128 * pair + 64)};
  } else {
    Pair w = load_low_bits<(kBits < 4 ? 2 : 4)>(codes, pair);
    if constexpr (kBits == 3) {
      const __m256i plane = load_32_bytes(high);
      w.even = _mm256_or_si256(w.even, move_bits<1, 2>(plane, 2 * pair));
      w.odd = _mm256_or_si256(w.odd, move_bits<1, 2>(plane, 2 * pair + 1));
    }
    if constexpr (kBits == 5) {
      const __m256i plane = load_32_bytes(high);
      w.even = _mm256_or_si256(w.even, move_bits<1, 4>(plane, 2 * pair));
      w.odd = _mm256_or_si256(w.odd, move_bits<1, 4>(plane, 2 * pair + 1));
    }
    if constexpr (kBits == 6) {
      const __m256i plane = load_32_bytes(high + 64 * (pair / 2));
      w.even = _mm256_or_si256(w.even, move_bits<2, 4>(plane, 4 * (pair % 2)));
      w.odd = _mm256_or_si256(w.odd, move_bits<2, 4>(plane, 4 * (pair % 2) + 2));
    }
    return w;
  }
}

/// Four-bit codes to what they stand for: a pair as of 8 bits.
QUIRE_ALWAYS_INLINE Pair look_up(Pair codes) {
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4NlValues));
  const __m256i table = _mm256_broadcastsi128_si256(once);
  return {_mm256_shuffle_epi8(table, codes.even), _mm256_shuffle_epi8(table, codes.odd)};
}

/// Products of two quads, in pairs, as int16. // codes of at most 6 bits
QUIRE_ALWAYS_INLINE __m256i narrow_products(Pair w, Quad even, Quad odd) {
  return _mm256_add_epi16(_mm256_maddubs_epi16(w.even, even.v), _mm256_maddubs_epi16(w.odd, odd.v));
}
QUIRE_ALWAYS_INLINE __m256i widen(__m256i narrow) {
  return _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
}
/// Products of one quad of int8 weights, as int32.
QUIRE_ALWAYS_INLINE __m256i signed_products(__m256i w, __m256i quad) {
  return widen(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(quad, w)));
}

/// Pairs of quads whose narrow sums fit int16 together.
template <int kBits>
constexpr int kPairsPerWidening = kBits == 4                 ? 4
                                  : kBits == 5 || kBits <= 3 ? 2
                                                             : 1;

template <int kBits>
struct GroupSum {
  __m256i narrow;
  __m256i wide;
  QUIRE_ALWAYS_INLINE void start(const ActivationBlock&) { narrow = wide = _mm256_setzero_si256(); }
  QUIRE_ALWAYS_INLINE void add(int pair, Pair w, Quad even, Quad odd) {
    if constexpr (kBits == 8) {
      wide = _mm256_add_epi32(wide, signed_products(w.even, even.v));
      wide = _mm256_add_epi32(wide, signed_products(w.odd, odd.v));
    } else {
      narrow = _mm256_add_epi16(narrow, narrow_products(w, even, odd));
      if ((pair + 1) % kPairsPerWidening<kBits> != 0) return;
      wide = _mm256_add_epi32(wide, widen(narrow));
      narrow = _mm256_setzero_si256();
    }
  }
  QUIRE_ALWAYS_INLINE StripInt total() const { return {wide}; }
};

template <int kBits, int kSubColumns>
struct ScaledSum {
  __m256i narrow;
  __m256i wide;
  QUIRE_ALWAYS_INLINE void start() { narrow = wide = _mm256_setzero_si256(); }
  QUIRE_ALWAYS_INLINE void add(int pair, Pair w, Quad even, Quad odd, StripInt scale) {
    static_assert(kPairsPerWidening<kBits> * 8 <= kSubColumns);
    narrow = _mm256_add_epi16(narrow, narrow_products(w, even, odd));
    if ((pair + 1) % kPairsPerWidening<kBits> != 0) return;
    wide = _mm256_add_epi32(wide, _mm256_madd_epi16(narrow, scale.v));
    narrow = _mm256_setzero_si256();
  }
  QUIRE_ALWAYS_INLINE StripInt total() const { return {wide}; }
};

QUIRE_ALWAYS_INLINE __m128i load_8_bytes(const std::byte* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
QUIRE_ALWAYS_INLINE __m256i join_pair(__m256i even, __m256i odd) {
  return _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xAA);
}
/// Each scale twice, as int16: the two halves of what vpmaddwd adds.
QUIRE_ALWAYS_INLINE StripInt load_scales(const std::byte* p) {
  const __m256i once = _mm256_cvtepu8_epi32(load_8_bytes(p));
  return {join_pair(once, once)};
}
QUIRE_ALWAYS_INLINE StripInt load_signed_scales(const std::byte* p) {
  const __m256i once = _mm256_cvtepi8_epi32(load_8_bytes(p));
  return {join_pair(once, once)};
}

struct ScalePair {
  __m256i v;
};
QUIRE_ALWAYS_INLINE ScalePair same_scale_twice(const std::byte* p) {
  return {load_scales(p).v};
}
QUIRE_ALWAYS_INLINE ScalePair signed_scale_pair(const std::byte* p) {
  return {
      join_pair(_mm256_cvtepi8_epi32(load_8_bytes(p)), _mm256_cvtepi8_epi32(load_8_bytes(p + 16)))};
}
QUIRE_ALWAYS_INLINE void add_pair_products(StripInt& sum, ScalePair pair, const int16_t* sums16) {
  int32_t two = 0;
  __builtin_memcpy(&two, sums16, 4);
  sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(pair.v, _mm256_set1_epi32(two)));
}
QUIRE_ALWAYS_INLINE StripInt zero_ints() {
  return {_mm256_setzero_si256()};
}
/// a - kTimes b, kTimes a power of two.
template <int kTimes>
QUIRE_ALWAYS_INLINE StripInt minus_times(StripInt a, StripInt b) {
  constexpr int kShift = __builtin_ctz(kTimes);
  return {_mm256_sub_epi32(a.v, _mm256_slli_epi32(b.v, kShift))};
}

}  // namespace quire::kernels::QUIRE_ISA
