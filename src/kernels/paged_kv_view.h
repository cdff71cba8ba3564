// paged_kv_view.h: the keys and values of one sequence in one layer group, as attention sees them.
//
// A page holds 64 token slots of every layer of its group. Inside a page, per layer and kv head:
//
//   K  [head_dim][64 slots]   dimension-major: q.K is broadcast-FMA over slots
//   V  [64 slots][head_dim]   slot-major:      p.V is broadcast-FMA over dimensions
//
// Plain data without ownership: valid as long as the KvStore says. Here, in kernels, so that model and
// kernels never see the pool.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

// Functions that per-ISA files call must never exist out of line: the linker might keep the AVX copy
// for everyone.
#define QUIRE_ALWAYS_INLINE __attribute__((always_inline)) inline

namespace quire::kernels {

inline constexpr int32_t kPageSlots = 64;

/// How rows of K and V are kept.
enum class KvElement : uint8_t { F32, F16, BF16 };

QUIRE_ALWAYS_INLINE constexpr int64_t kv_element_bytes(KvElement e) {
  return e == KvElement::F32 ? 4 : 2;
}

/// The layout of a page of one layer group.
struct KvGroupShape {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  KvElement key = KvElement::F16;
  KvElement value = KvElement::F16;

  QUIRE_ALWAYS_INLINE constexpr int64_t key_plane_bytes() const {
    return int64_t{head_dim} * kPageSlots * kv_element_bytes(key);
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t value_plane_bytes() const {
    return int64_t{head_dim} * kPageSlots * kv_element_bytes(value);
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t page_bytes() const {
    return int64_t{num_layers} * num_kv_heads * (key_plane_bytes() + value_plane_bytes());
  }
  /// Byte offset of K of `layer` (its index within the group) and `kv_head`. // [head_dim, 64]
  QUIRE_ALWAYS_INLINE constexpr int64_t key_offset(int32_t layer, int32_t kv_head) const {
    return (int64_t{layer} * num_kv_heads + kv_head) * (key_plane_bytes() + value_plane_bytes());
  }
  /// Byte offset of V of `layer` and `kv_head`. // [64, head_dim]
  QUIRE_ALWAYS_INLINE constexpr int64_t value_offset(int32_t layer, int32_t kv_head) const {
    return key_offset(layer, kv_head) + key_plane_bytes();
  }
};

/// One entry of a page table: slot s in [begin, end) holds the token at position logical_base + s.
struct PageSpan {
  std::byte* page = nullptr;  // [page_bytes], 64-byte aligned
  int32_t stored_base = 0;    // keys are rotated for position stored_base + s
  int32_t logical_base = 0;
  int16_t begin = 0;
  int16_t end = 0;
};

struct PagedKvView {
  KvGroupShape shape;
  std::span<const PageSpan> pages;  // ascending positions
  int32_t window = 0;               // key j is visible to query i iff 0 <= i - j < window; 0: no limit
};

}  // namespace quire::kernels
