// kv_element.inl: the number types of KV pages, as tags that load and store 16 of them.
#pragma once
#include "kernels/paged_kv_view.h"

namespace quire::kernels::QUIRE_ISA {

struct FloatElement {
  using Stored = float;
  static QUIRE_ALWAYS_INLINE F32x16 load16(const float* p) { return load(p); }
  static QUIRE_ALWAYS_INLINE void store16(float* p, F32x16 a) { store(p, a); }
};

/// Into [-largest, largest]; NaN stays NaN (min and max take their second operand).
QUIRE_ALWAYS_INLINE F32x16 saturated(F32x16 a, float largest) {
  return max(broadcast(-largest), min(broadcast(largest), a));
}

struct HalfElement {
  using Stored = uint16_t;
  static QUIRE_ALWAYS_INLINE F32x16 load16(const uint16_t* p) { return load_half(p); }
  static QUIRE_ALWAYS_INLINE void store16(uint16_t* p, F32x16 a) {
    store_half(p, saturated(a, 65504.0f));
  }
};

struct BfloatElement {
  using Stored = uint16_t;
  static QUIRE_ALWAYS_INLINE F32x16 load16(const uint16_t* p) { return load_bfloat(p); }
  static QUIRE_ALWAYS_INLINE void store16(uint16_t* p, F32x16 a) {
    store_bfloat(p, saturated(a, 0x1.FEp127f));
  }
};

}  // namespace quire::kernels::QUIRE_ISA
