// dot_scalar.inl: the integer products of int8 activations with packed codes, plain reference.
//
// Strip: the rows that one accumulator covers (here a whole panel). Pair: the codes of two quads.
// The vocabulary is the same in dot_avx2.inl and dot_avx512.inl; matmul_int8.inl is written over
// it.
#pragma once
#include "kernels/activations.h"
#include "kernels/panel_layout.h"

namespace quire::kernels::QUIRE_ISA {

constexpr int kStripRows = 16;
constexpr int kWideTokens = 0;      // no other tile
constexpr int kTileTokens = 2;      // a tile with int8 activations: tokens ...
constexpr int kTileTokensK = 2;     // ... with K-quants ...
constexpr int kTileStrips = 1;      // ... and strips,
constexpr int kTilePanels = 1;      // of this many panels at once
constexpr int64_t kUnpackFrom = 0;  // tokens that make up for unpacking first; 0: never
constexpr int kGemvPanels = 1;      // panels that one token reads at once
constexpr int kFloatTokens = 2;     // a tile of f32 activations: tokens ...
constexpr int kFloatPanels = 1;     // ... and panels

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

/// Four consecutive activations of one token.
struct Quad {
  const int8_t* values;
};
QUIRE_ALWAYS_INLINE Quad load_quad(const int8_t* p) {
  return {p};
}

/// Codes of two quads of columns, for the rows of a strip.
struct Pair {
  int16_t even[64];
  int16_t odd[64];
};

/// What one byte position of a plane of kBits a code holds for quad `quad` of the group.
template <int kBits>
QUIRE_ALWAYS_INLINE int bits_of_quad(const std::byte* plane, int quad) {
  constexpr int kQuadsAByte = 8 / kBits;
  const int byte = static_cast<int>(plane[64 * (quad / kQuadsAByte)]);
  return byte >> kBits * (quad % kQuadsAByte) & ((1 << kBits) - 1);
}

/// Pair `pair` (0..3) of a group. // codes: the group's code plane, high: its high bits
template <int kBits>
QUIRE_ALWAYS_INLINE Pair load_pair(const std::byte* codes, const std::byte* high, int pair) {
  Pair w;
  for (int i = 0; i < 64; ++i) {
    if constexpr (kBits == 8) {
      const auto* p = reinterpret_cast<const int8_t*>(codes) + 128 * pair + i;
      w.even[i] = p[0];
      w.odd[i] = p[64];
    } else {
      constexpr int kLowBits = kBits < 4 ? 2 : 4;
      w.even[i] = static_cast<int16_t>(bits_of_quad<kLowBits>(codes + i, 2 * pair));
      w.odd[i] = static_cast<int16_t>(bits_of_quad<kLowBits>(codes + i, 2 * pair + 1));
      if constexpr (kBits > kLowBits) {
        constexpr int kHighBits = kBits - kLowBits;
        w.even[i] |= static_cast<int16_t>(bits_of_quad<kHighBits>(high + i, 2 * pair) << kLowBits);
        w.odd[i] |=
            static_cast<int16_t>(bits_of_quad<kHighBits>(high + i, 2 * pair + 1) << kLowBits);
      }
    }
  }
  return w;
}

/// Four-bit codes to what they stand for: a pair as of 8 bits.
QUIRE_ALWAYS_INLINE Pair look_up(const Pair& codes) {
  Pair w;
  for (int i = 0; i < 64; ++i) {
    w.even[i] = kIq4NlValues[codes.even[i]];
    w.odd[i] = kIq4NlValues[codes.odd[i]];
  }
  return w;
}

QUIRE_ALWAYS_INLINE void add_products(I32x16& sum, const Pair& w, Quad even, Quad odd) {
  for (int row = 0; row < 16; ++row) {
    for (int j = 0; j < 4; ++j) {
      sum.lane[row] += w.even[4 * row + j] * even.values[j] + w.odd[4 * row + j] * odd.values[j];
    }
  }
}

/// Sum over a group of 32 columns. // |codes| < 2^kBits unsigned, or int8 if kBits == 8
template <int kBits>
struct GroupSum {
  I32x16 sum;
  QUIRE_ALWAYS_INLINE void start(const ActivationBlock&) { sum = {}; }
  QUIRE_ALWAYS_INLINE void add(int, const Pair& w, Quad even, Quad odd) {
    add_products(sum, w, even, odd);
  }
  QUIRE_ALWAYS_INLINE StripInt total() const { return sum; }
};

/// Sum over groups of 32 columns of codes times their sub-block's scale.
template <int kBits, int kSubColumns>
struct ScaledSum {
  I32x16 sum;
  QUIRE_ALWAYS_INLINE void start() { sum = {}; }
  QUIRE_ALWAYS_INLINE void add(int, const Pair& w, Quad even, Quad odd, const StripInt& scale) {
    I32x16 products = {};
    add_products(products, w, even, odd);
    for (int i = 0; i < 16; ++i) sum.lane[i] += products.lane[i] * scale.lane[i];
  }
  QUIRE_ALWAYS_INLINE StripInt total() const { return sum; }
};

/// The scale bytes of one sub-block in the form that ScaledSum takes.
QUIRE_ALWAYS_INLINE StripInt load_scales(const std::byte* p) {
  StripInt r;
  for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<uint8_t>(p[i]);
  return r;
}
QUIRE_ALWAYS_INLINE StripInt load_signed_scales(const std::byte* p) {
  StripInt r;
  for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<int8_t>(p[i]);
  return r;
}

/// Two 16-bit numbers a row, the even and the odd one of a pair of 16-column sums.
struct ScalePair {
  I32x16 even, odd;
};
QUIRE_ALWAYS_INLINE ScalePair same_scale_twice(const std::byte* p) {
  return {load_scales(p), load_scales(p)};
}
QUIRE_ALWAYS_INLINE ScalePair signed_scale_pair(const std::byte* p) {
  return {load_signed_scales(p), load_signed_scales(p + 16)};
}
/// sum += pair.even * sums16[0] + pair.odd * sums16[1].
QUIRE_ALWAYS_INLINE void add_pair_products(StripInt& sum, const ScalePair& pair,
                                           const int16_t* sums16) {
  for (int i = 0; i < 16; ++i) {
    sum.lane[i] += pair.even.lane[i] * sums16[0] + pair.odd.lane[i] * sums16[1];
  }
}
QUIRE_ALWAYS_INLINE StripInt zero_ints() {
  return {};
}
/// a - kTimes b.
template <int kTimes>
QUIRE_ALWAYS_INLINE StripInt minus_times(StripInt a, const StripInt& b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= kTimes * b.lane[i];
  return a;
}

}  // namespace quire::kernels::QUIRE_ISA
