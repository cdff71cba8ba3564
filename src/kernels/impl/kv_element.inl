// kv_element.inl: the number types of KV pages, as tags that load and store 16 of them.
//
// Elements are counted in columns, multiples of 16 where a tag is a code: several share a byte.
#pragma once
#include "kernels/paged_kv_view.h"

namespace quire::kernels::QUIRE_ISA {

struct FloatElement {
  using Stored = float;
  static constexpr int kBits = 32;
  static QUIRE_ALWAYS_INLINE constexpr int64_t stored(int64_t columns) { return columns; }
  static QUIRE_ALWAYS_INLINE F32x16 load16(const float* p) { return load(p); }
  static QUIRE_ALWAYS_INLINE void store16(float* p, F32x16 a) { store(p, a); }
};

/// Into [-largest, largest]; NaN stays NaN (min and max take their second operand).
QUIRE_ALWAYS_INLINE F32x16 saturated(F32x16 a, float largest) {
  return max(broadcast(-largest), min(broadcast(largest), a));
}

struct HalfElement {
  using Stored = uint16_t;
  static constexpr int kBits = 16;
  static QUIRE_ALWAYS_INLINE constexpr int64_t stored(int64_t columns) { return columns; }
  static QUIRE_ALWAYS_INLINE F32x16 load16(const uint16_t* p) { return load_half(p); }
  static QUIRE_ALWAYS_INLINE void store16(uint16_t* p, F32x16 a) {
    store_half(p, saturated(a, 65504.0f));
  }
};

struct BfloatElement {
  using Stored = uint16_t;
  static constexpr int kBits = 16;
  static QUIRE_ALWAYS_INLINE constexpr int64_t stored(int64_t columns) { return columns; }
  static QUIRE_ALWAYS_INLINE F32x16 load16(const uint16_t* p) { return load_bfloat(p); }
  static QUIRE_ALWAYS_INLINE void store16(uint16_t* p, F32x16 a) {
    store_bfloat(p, saturated(a, 0x1.FEp127f));
  }
};

/// Codes of B bits; the packing is kv_code_bytes()'s.
template <int B>
struct CodeElement {
  using Stored = uint8_t;
  static constexpr int kBits = B;
  static QUIRE_ALWAYS_INLINE constexpr int64_t stored(int64_t columns) { return columns * B / 8; }
  static QUIRE_ALWAYS_INLINE F32x16 load16(const uint8_t* p) {
    if constexpr (B == 8) return load_codes8(p);
    if constexpr (B == 6) return load_codes6(p);
    if constexpr (B == 4) return load_codes4(p);
    if constexpr (B == 3) return load_codes3(p);
    if constexpr (B == 2) return load_codes2(p);
  }
};

}  // namespace quire::kernels::QUIRE_ISA
