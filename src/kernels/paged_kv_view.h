// paged_kv_view.h: the keys and values of one sequence in one layer group, as attention sees them.
//
// A page holds 64 token slots of every layer of its group. Inside a page, per layer and kv head:
//
//   K  [head_dim][64 slots]   dimension-major: q.K is broadcast-FMA over slots
//   V  [64 slots][head_dim]   slot-major:      p.V is broadcast-FMA over dimensions
//
// With a lossy codec a page has two forms. It is *open* while it fills; when its last slot is
// written it is *sealed* into integer codes, x ~ minimum + scale * code:
//
//   K  codes [head_dim][64], then scale [head_dim], minimum [head_dim]   (per channel of the page)
//   V  codes [64][head_dim], then scale [64], minimum [64]               (per token)
//
// Scales and minima are f16; head_dim counts up to a multiple of 16 in V's rows and all scales.
// Codes are packed 16 at a time (see kv_code_bytes). Which form a query reads depends on positions
// only: its own page and the page at position 0 open, every other page sealed. // KIVI,
// arXiv:2402.02750
//
// Plain data without ownership: valid as long as the KvStore says. Here, in kernels, so that model
// and kernels never see the pool.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

// Functions that per-ISA files call must never exist out of line: the linker might keep the AVX
// copy for everyone.
#define QUIRE_ALWAYS_INLINE __attribute__((always_inline)) inline

namespace quire::kernels {

inline constexpr int32_t kPageSlots = 64;
/// Wider heads are not sealed.
inline constexpr int32_t kMaxSealedHeadDim = 1024;

/// How rows of K and V are kept.
enum class KvElement : uint8_t { F32, F16, BF16 };

QUIRE_ALWAYS_INLINE constexpr int64_t kv_element_bytes(KvElement e) {
  return e == KvElement::F32 ? 4 : 2;
}

/// How rows are kept in sealed pages: as they are, or as codes of so many bits.
enum class KvCode : uint8_t { kNone, kQ8, kQ6, kQ4, kQ3, kQ2 };

/// 0 for kNone.
QUIRE_ALWAYS_INLINE constexpr int32_t kv_code_bits(KvCode code) {
  switch (code) {
    case KvCode::kNone:
      return 0;
    case KvCode::kQ8:
      return 8;
    case KvCode::kQ6:
      return 6;
    case KvCode::kQ4:
      return 4;
    case KvCode::kQ3:
      return 3;
    case KvCode::kQ2:
      return 2;
  }
  return 0;
}

/// Bytes of `count` codes, a multiple of 16. Sixteen codes c[0..15] stand as their bit planes: 8
/// bits c[j]; low 4 bits c[j] | c[j + 8] << 4, j < 8; 2 bits (of q6 the upper, of q3 the lower)
/// c[j] | c[j + 4] << 2 | c[j + 8] << 4 | c[j + 12] << 6, j < 4; 1 bit c[j] << j in a 16-bit word.
QUIRE_ALWAYS_INLINE constexpr int64_t kv_code_bytes(KvCode code, int64_t count) {
  return count * kv_code_bits(code) / 8;
}

/// The layout of a page of one layer group.
struct KvGroupShape {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  KvElement key = KvElement::F16;
  KvElement value = KvElement::F16;
  KvCode key_code = KvCode::kNone;
  KvCode value_code = KvCode::kNone;

  /// Whether pages are sealed at all.
  QUIRE_ALWAYS_INLINE constexpr bool is_lossy() const {
    return key_code != KvCode::kNone || value_code != KvCode::kNone;
  }
  /// head_dim up to a whole number of vectors.
  QUIRE_ALWAYS_INLINE constexpr int64_t padded_dim() const {
    return (int64_t{head_dim} + 15) / 16 * 16;
  }

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

  /// The same four of a sealed page.
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_key_plane_bytes() const {
    if (key_code == KvCode::kNone) return key_plane_bytes();
    return sealed_key_scales() + padded_dim() * 2 * kScaleBytes;
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_value_plane_bytes() const {
    if (value_code == KvCode::kNone) return value_plane_bytes();
    return sealed_value_scales() + int64_t{kPageSlots} * 2 * kScaleBytes;
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_page_bytes() const {
    return int64_t{num_layers} * num_kv_heads *
           (sealed_key_plane_bytes() + sealed_value_plane_bytes());
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_key_offset(int32_t layer, int32_t kv_head) const {
    return (int64_t{layer} * num_kv_heads + kv_head) *
           (sealed_key_plane_bytes() + sealed_value_plane_bytes());
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_value_offset(int32_t layer, int32_t kv_head) const {
    return sealed_key_offset(layer, kv_head) + sealed_key_plane_bytes();
  }
  /// Where the scales begin in a sealed plane; the minima follow them.
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_key_scales() const {
    return int64_t{head_dim} * kv_code_bytes(key_code, kPageSlots);
  }
  QUIRE_ALWAYS_INLINE constexpr int64_t sealed_value_scales() const {
    return int64_t{kPageSlots} * kv_code_bytes(value_code, padded_dim());
  }

  static constexpr int64_t kScaleBytes = 2;
};

/// One entry of a page table: slot s in [begin, end) holds the token at position logical_base + s.
struct PageSpan {
  std::byte* page =
      nullptr;  // [page_bytes], 64-byte aligned; null once only the sealed form is left
  std::byte* sealed = nullptr;  // [sealed_page_bytes]; null without a lossy codec, for the page at
                                // position 0, and while the page is not full
  int32_t stored_base = 0;      // keys are rotated for position stored_base + s
  int32_t logical_base = 0;
  int16_t begin = 0;
  int16_t end = 0;
};

struct PagedKvView {
  KvGroupShape shape;
  std::span<const PageSpan> pages;  // ascending positions
  int32_t window = 0;  // key j is visible to query i iff 0 <= i - j < window; 0: no limit
  int32_t sinks = 0;   // with a window: keys j < sinks stay visible as well
};

}  // namespace quire::kernels
