// scalar.h: the 16-lane vector in plain C++: the reference for the other instruction sets.
//
// std::fma rounds once, as the hardware instruction does; without FMA hardware it is slow. min and
// max follow the SSE rule: the second operand if either is NaN.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/paged_kv_view.h"

namespace quire::kernels::scalar {

inline constexpr int kRegisters = 16;  // vector registers that a tile may count on, in 8-lane units

struct F32x16 {
  float lane[16];
};
struct I32x16 {
  int32_t lane[16];
};
struct Mask16 {
  uint16_t bits;
};

#define QUIRE_LANES for (int i = 0; i < 16; ++i)

QUIRE_ALWAYS_INLINE F32x16 zero() {
  return F32x16{};
}
QUIRE_ALWAYS_INLINE F32x16 broadcast(float x) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = x;
  return r;
}
QUIRE_ALWAYS_INLINE F32x16 load(const float* p) {
  F32x16 r;
  std::memcpy(r.lane, p, sizeof r.lane);
  return r;
}
QUIRE_ALWAYS_INLINE void store(float* p, F32x16 a) {
  std::memcpy(p, a.lane, sizeof a.lane);
}
/// The first `count` lanes, 0 to 16, from memory; the others are zero.
QUIRE_ALWAYS_INLINE F32x16 load_first(const float* p, int count) {
  F32x16 r{};
  for (int i = 0; i < count; ++i) r.lane[i] = p[i];
  return r;
}
QUIRE_ALWAYS_INLINE void store_first(float* p, F32x16 a, int count) {
  for (int i = 0; i < count; ++i) p[i] = a.lane[i];
}

QUIRE_ALWAYS_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] += b.lane[i];
  return a;
}
QUIRE_ALWAYS_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] -= b.lane[i];
  return a;
}
QUIRE_ALWAYS_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] *= b.lane[i];
  return a;
}
QUIRE_ALWAYS_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] /= b.lane[i];
  return a;
}
/// a * b + c, rounded once.
QUIRE_ALWAYS_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  QUIRE_LANES c.lane[i] = std::fma(a.lane[i], b.lane[i], c.lane[i]);
  return c;
}
QUIRE_ALWAYS_INLINE F32x16 max(F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
QUIRE_ALWAYS_INLINE F32x16 min(F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
QUIRE_ALWAYS_INLINE F32x16 abs(F32x16 a) {
  QUIRE_LANES a.lane[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(a.lane[i]) & 0x7FFFFFFFu);
  return a;
}
/// To the nearest integer, ties to even.
QUIRE_ALWAYS_INLINE F32x16 round_even(F32x16 a) {
  QUIRE_LANES a.lane[i] = std::nearbyintf(a.lane[i]);
  return a;
}
/// Integer-valued floats within int32 to integers.
QUIRE_ALWAYS_INLINE I32x16 to_int(F32x16 a) {
  I32x16 r;
  QUIRE_LANES r.lane[i] = static_cast<int32_t>(a.lane[i]);
  return r;
}
QUIRE_ALWAYS_INLINE F32x16 to_float(I32x16 a) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = static_cast<float>(a.lane[i]);
  return r;
}
/// 2^n for n in [-126, 127].
QUIRE_ALWAYS_INLINE F32x16 exp2_int(I32x16 n) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = std::bit_cast<float>(static_cast<uint32_t>(n.lane[i] + 127) << 23);
  return r;
}

QUIRE_ALWAYS_INLINE Mask16 less(F32x16 a, F32x16 b) {
  Mask16 m{0};
  QUIRE_LANES m.bits = static_cast<uint16_t>(m.bits | (a.lane[i] < b.lane[i] ? 1u << i : 0u));
  return m;
}
/// Lanes [begin, end) of 16; the bounds may lie outside.
QUIRE_ALWAYS_INLINE Mask16 lanes_between(int begin, int end) {
  Mask16 m{0};
  QUIRE_LANES m.bits = static_cast<uint16_t>(m.bits | (i >= begin && i < end ? 1u << i : 0u));
  return m;
}
/// m ? a : b.
QUIRE_ALWAYS_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  QUIRE_LANES a.lane[i] = (m.bits >> i & 1) != 0 ? a.lane[i] : b.lane[i];
  return a;
}
/// Zero in lanes of `m`, a * 2^n in the others; there n is integer-valued in [-126, 127] or a NaN.
QUIRE_ALWAYS_INLINE F32x16 times_exp2_unless(Mask16 m, F32x16 a, F32x16 n) {
  const F32x16 in_range = select(less(n, broadcast(-126.0f)), zero(), n);
  QUIRE_LANES {
    const bool is_number = in_range.lane[i] == in_range.lane[i];
    const int32_t exponent = is_number ? static_cast<int32_t>(in_range.lane[i]) : 0;
    a.lane[i] *= std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
  }
  return select(m, zero(), a);
}

QUIRE_ALWAYS_INLINE float square_root(float x) {
  return std::sqrt(x);
}

/// Sum in the fixed tree: lanes i and i+8, then i and i+4, i+2, i+1.
QUIRE_ALWAYS_INLINE float sum(F32x16 a) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
  }
  return a.lane[0];
}
QUIRE_ALWAYS_INLINE float max_lane(F32x16 a) {
  float m = a.lane[0];
  for (int i = 1; i < 16; ++i) m = m > a.lane[i] ? m : a.lane[i];
  return m;
}

/// IEEE half to float, exact. // IEEE 754-2008 binary16
QUIRE_ALWAYS_INLINE float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = h >> 10 & 0x1Fu;
  const uint32_t mantissa = h & 0x3FFu;
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;  // as F16C: NaNs become quiet
    return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13 | quiet);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}
/// Float to IEEE half, to nearest even.
QUIRE_ALWAYS_INLINE uint16_t float_to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  }
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the mantissa so that the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

QUIRE_ALWAYS_INLINE F32x16 load_half(const uint16_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = half_to_float(p[i]);
  return r;
}
QUIRE_ALWAYS_INLINE void store_half(uint16_t* p, F32x16 a) {
  QUIRE_LANES p[i] = float_to_half(a.lane[i]);
}
QUIRE_ALWAYS_INLINE F32x16 load_bfloat(const uint16_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = std::bit_cast<float>(static_cast<uint32_t>(p[i]) << 16);
  return r;
}
/// To bfloat16, to nearest even; requires no NaN.
QUIRE_ALWAYS_INLINE void store_bfloat(uint16_t* p, F32x16 a) {
  QUIRE_LANES {
    const uint32_t bits = std::bit_cast<uint32_t>(a.lane[i]);
    p[i] = static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
  }
}
/// Integer-valued floats in [-128, 127] to bytes.
QUIRE_ALWAYS_INLINE void store_int8(int8_t* p, F32x16 a) {
  QUIRE_LANES p[i] = static_cast<int8_t>(a.lane[i]);
}
/// Integer-valued floats in [0, 255] to bytes.
QUIRE_ALWAYS_INLINE void store_uint8(uint8_t* p, F32x16 a) {
  QUIRE_LANES p[i] = static_cast<uint8_t>(a.lane[i]);
}
/// Sixteen codes to floats; packings as kv_code_bytes() says.
QUIRE_ALWAYS_INLINE int nibble(const uint8_t* p, int i) {
  return p[i % 8] >> (i < 8 ? 0 : 4) & 15;
}
QUIRE_ALWAYS_INLINE int bit_pair(const uint8_t* p, int i) {
  return p[i % 4] >> (2 * (i / 4)) & 3;
}
QUIRE_ALWAYS_INLINE int single_bit(const uint8_t* p, int i) {
  return p[i / 8] >> (i % 8) & 1;
}
QUIRE_ALWAYS_INLINE F32x16 load_codes8(const uint8_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = p[i];
  return r;
}
QUIRE_ALWAYS_INLINE F32x16 load_codes6(const uint8_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = static_cast<float>(nibble(p, i) | bit_pair(p + 8, i) << 4);
  return r;
}
QUIRE_ALWAYS_INLINE F32x16 load_codes4(const uint8_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = static_cast<float>(nibble(p, i));
  return r;
}
QUIRE_ALWAYS_INLINE F32x16 load_codes3(const uint8_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = static_cast<float>(bit_pair(p, i) | single_bit(p + 4, i) << 2);
  return r;
}
QUIRE_ALWAYS_INLINE F32x16 load_codes2(const uint8_t* p) {
  F32x16 r;
  QUIRE_LANES r.lane[i] = static_cast<float>(bit_pair(p, i));
  return r;
}
/// Where registers are scarce: see avx2.h.
QUIRE_ALWAYS_INLINE const float* reread(const float* p) {
  return p;
}
QUIRE_ALWAYS_INLINE void prefetch(const void*) {}

#undef QUIRE_LANES

}  // namespace quire::kernels::scalar
