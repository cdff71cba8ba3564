// dot_avx512.inl: the integer products with AVX-512 VNNI; vocabulary as in dot_scalar.inl.
//
// vpdpbusd multiplies unsigned codes with signed activations and adds four products into int32, so
// nothing can saturate. Int8 weights become w + 128, and the sum starts at -128 * sum(q).
#pragma once
#include "kernels/activations.h"
#include "kernels/kernel_set.h"
#include "kernels/panel_layout.h"

namespace quire::kernels::QUIRE_ISA {

constexpr int kStripRows = 16;
constexpr int kWideTokens = 12;  // of a tile of one strip, for types with blocks of 32
constexpr int kTileTokens = 6;
constexpr int kTileTokensK = 6;
constexpr int kTileStrips = 2;
constexpr int kTilePanels = 2;
constexpr int64_t kUnpackFrom = kManyTokens;  // that make up for unpacking their weights first
constexpr int kGemvPanels = 2;
constexpr int kFloatTokens = 8;
constexpr int kFloatPanels = 2;

using Strip = F32x16;
using StripInt = I32x16;

QUIRE_ALWAYS_INLINE Strip zero_strip() {
  return zero();
}
QUIRE_ALWAYS_INLINE Strip broadcast_strip(float x) {
  return broadcast(x);
}
QUIRE_ALWAYS_INLINE Strip load_strip(const float* p) {
  return load(p);
}
QUIRE_ALWAYS_INLINE Strip load_strip_half(const uint16_t* p) {
  return load_half(p);
}
QUIRE_ALWAYS_INLINE Strip load_strip_bfloat(const uint16_t* p) {
  return load_bfloat(p);
}

struct Quad {
  __m512i v;
};
QUIRE_ALWAYS_INLINE Quad load_quad(const int8_t* p) {
  int32_t four = 0;
  __builtin_memcpy(&four, p, 4);
  return {_mm512_set1_epi32(four)};
}

struct Pair {
  __m512i even, odd;
};

/// Bits [from, from + kCount) of every byte moved to bits [kTo, kTo + kCount), the rest zero.
template <int kCount, int kTo>
QUIRE_ALWAYS_INLINE __m512i move_bits(__m512i plane, int from) {
  const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << kCount) - 1) << kTo));
  const __m512i moved = from < kTo ? _mm512_slli_epi16(plane, static_cast<unsigned>(kTo - from))
                                   : _mm512_srli_epi16(plane, static_cast<unsigned>(from - kTo));
  return _mm512_and_si512(moved, mask);
}

/// The low bits of a pair's codes, of which a byte holds two (kLowBits 4) or four (2).
template <int kLowBits>
QUIRE_ALWAYS_INLINE Pair load_low_bits(const std::byte* codes, int pair) {
  if constexpr (kLowBits == 2) {
    const __m512i four = _mm512_loadu_si512(codes + 64 * (pair / 2));
    return {move_bits<2, 0>(four, 4 * (pair % 2)), move_bits<2, 0>(four, 4 * (pair % 2) + 2)};
  }
  const __m512i two = _mm512_loadu_si512(codes + 64 * pair);
  return {move_bits<4, 0>(two, 0), move_bits<4, 0>(two, 4)};
}

template <int kBits>
QUIRE_ALWAYS_INLINE Pair load_pair(const std::byte* codes, const std::byte* high, int pair) {
  if constexpr (kBits == 8) {
    const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
    return {_mm512_xor_si512(_mm512_loadu_si512(codes + 128 * pair), flip),
            _mm512_xor_si512(_mm512_loadu_si512(codes + 128 * pair + 64), flip)};
  } else {
    Pair w = load_low_bits<(kBits < 4 ? 2 : 4)>(codes, pair);
    if constexpr (kBits == 3) {
      const __m512i plane = _mm512_loadu_si512(high);
      w.even = _mm512_or_si512(w.even, move_bits<1, 2>(plane, 2 * pair));
      w.odd = _mm512_or_si512(w.odd, move_bits<1, 2>(plane, 2 * pair + 1));
    }
    if constexpr (kBits == 5) {
      const __m512i plane = _mm512_loadu_si512(high);
      w.even = _mm512_or_si512(w.even, move_bits<1, 4>(plane, 2 * pair));
      w.odd = _mm512_or_si512(w.odd, move_bits<1, 4>(plane, 2 * pair + 1));
    }
    if constexpr (kBits == 6) {
      const __m512i plane = _mm512_loadu_si512(high + 64 * (pair / 2));
      w.even = _mm512_or_si512(w.even, move_bits<2, 4>(plane, 4 * (pair % 2)));
      w.odd = _mm512_or_si512(w.odd, move_bits<2, 4>(plane, 4 * (pair % 2) + 2));
    }
    return w;
  }
}

/// Four-bit codes to what they stand for: a pair as of 8 bits, so 128 more.
QUIRE_ALWAYS_INLINE Pair look_up(const Pair& codes) {
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4NlValues));
  const __m512i table =
      _mm512_xor_si512(_mm512_broadcast_i32x4(once), _mm512_set1_epi8(static_cast<char>(0x80)));
  return {_mm512_shuffle_epi8(table, codes.even), _mm512_shuffle_epi8(table, codes.odd)};
}

/// Pairs unpacked to bytes. // codes: [quad][64 bytes]
QUIRE_ALWAYS_INLINE void store_unpacked(std::byte* codes, int pair, const Pair& w) {
  _mm512_storeu_si512(codes + 128 * pair, w.even);
  _mm512_storeu_si512(codes + 128 * pair + 64, w.odd);
}
QUIRE_ALWAYS_INLINE Pair load_unpacked(const std::byte* codes, int pair) {
  return {_mm512_loadu_si512(codes + 128 * pair), _mm512_loadu_si512(codes + 128 * pair + 64)};
}

template <int kBits>
struct GroupSum {
  __m512i sum;
  QUIRE_ALWAYS_INLINE void start(const ActivationBlock& block) {
    sum = kBits == 8 ? _mm512_set1_epi32(-128 * block.total) : _mm512_setzero_si512();
  }
  QUIRE_ALWAYS_INLINE void add(int, const Pair& w, Quad even, Quad odd) {
    sum = _mm512_dpbusd_epi32(sum, w.even, even.v);
    sum = _mm512_dpbusd_epi32(sum, w.odd, odd.v);
  }
  QUIRE_ALWAYS_INLINE StripInt total() const { return {sum}; }
};

template <int kBits, int kSubColumns>
struct ScaledSum {
  __m512i sum;
  __m512i products;
  QUIRE_ALWAYS_INLINE void start() { sum = products = _mm512_setzero_si512(); }
  QUIRE_ALWAYS_INLINE void add(int pair, const Pair& w, Quad even, Quad odd, StripInt scale) {
    products = _mm512_dpbusd_epi32(products, w.even, even.v);
    products = _mm512_dpbusd_epi32(products, w.odd, odd.v);
    if ((pair + 1) % (kSubColumns / 8) != 0) return;
    sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(products, scale.v));
    products = _mm512_setzero_si512();
  }
  QUIRE_ALWAYS_INLINE StripInt total() const { return {sum}; }
};

QUIRE_ALWAYS_INLINE __m128i load_16_bytes(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
QUIRE_ALWAYS_INLINE StripInt load_scales(const std::byte* p) {
  return {_mm512_cvtepu8_epi32(load_16_bytes(p))};
}
QUIRE_ALWAYS_INLINE StripInt load_signed_scales(const std::byte* p) {
  return {_mm512_cvtepi8_epi32(load_16_bytes(p))};
}

struct ScalePair {
  __m512i v;  // int16: even, odd of row 0, even, odd of row 1, ...
};
QUIRE_ALWAYS_INLINE ScalePair same_scale_twice(const std::byte* p) {
  const __m512i once = load_scales(p).v;
  return {_mm512_or_si512(once, _mm512_slli_epi32(once, 16))};
}
QUIRE_ALWAYS_INLINE ScalePair signed_scale_pair(const std::byte* p) {
  const __m512i odd = _mm512_slli_epi32(load_signed_scales(p + 16).v, 16);
  return {_mm512_mask_blend_epi16(0xAAAAAAAAu, load_signed_scales(p).v, odd)};
}
QUIRE_ALWAYS_INLINE void add_pair_products(StripInt& sum, ScalePair pair, const int16_t* sums16) {
  int32_t two = 0;
  __builtin_memcpy(&two, sums16, 4);
  sum.v = _mm512_dpwssd_epi32(sum.v, pair.v, _mm512_set1_epi32(two));
}
QUIRE_ALWAYS_INLINE StripInt zero_ints() {
  return {_mm512_setzero_si512()};
}
/// a - kTimes b, kTimes a power of two.
template <int kTimes>
QUIRE_ALWAYS_INLINE StripInt minus_times(StripInt a, StripInt b) {
  constexpr unsigned kShift = __builtin_ctz(kTimes);
  return {_mm512_sub_epi32(a.v, _mm512_slli_epi32(b.v, kShift))};
}

}  // namespace quire::kernels::QUIRE_ISA
