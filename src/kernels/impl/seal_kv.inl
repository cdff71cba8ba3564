// seal_kv.inl: a full page of rows into codes; contract in ../kernel_set.h, layout in
// ../paged_kv_view.h.
//
// A row of numbers x (64 slots of one channel, or the channels of one token) becomes
// code = round half to even of (x - minimum) / scale in [0, 2^bits - 1], where minimum = min x and
// scale = (max x - min x) / (2^bits - 1), both rounded to f16. A row of equal numbers has scale 0
// and codes 0. // KIVI, arXiv:2402.02750
#pragma once
#include <cstring>

#include "kernels/impl/kv_element.inl"
#include "kernels/impl/lanes.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

/// Packs sixteen codes. // out: [kv_code_bytes(code, 16)]
static void pack_codes(KvCode code, const uint8_t* c, uint8_t* out) {
  const auto bits = [&](int count, int shift, int mask, uint8_t* to) {
    const int per_byte = 16 / count;
    const int width = 8 / per_byte;
    for (int j = 0; j < count; ++j) {
      int byte = 0;
      for (int k = 0; k < per_byte; ++k) {
        byte |= (c[j + k * count] >> shift & mask) << (k * width);
      }
      to[j] = static_cast<uint8_t>(byte);
    }
  };
  switch (code) {
    case KvCode::kNone:
      return;
    case KvCode::kQ8:
      std::memcpy(out, c, 16);
      return;
    case KvCode::kQ6:
      bits(8, 0, 15, out);
      bits(4, 4, 3, out + 8);
      return;
    case KvCode::kQ4:
      bits(8, 0, 15, out);
      return;
    case KvCode::kQ3: {
      bits(4, 0, 3, out);
      int word = 0;
      for (int j = 0; j < 16; ++j) word |= (c[j] >> 2 & 1) << j;
      out[4] = static_cast<uint8_t>(word);
      out[5] = static_cast<uint8_t>(word >> 8);
      return;
    }
    case KvCode::kQ2:
      bits(4, 0, 3, out);
      return;
  }
}

struct CodeScale {
  uint16_t scale;
  uint16_t minimum;
};

/// Encodes `count` numbers, whose padding to 16 repeats one of them or is dropped by the caller.
/// // x: [count up to 16], codes packed to `out`
static CodeScale encode(KvCode code, const float* x, int64_t count, uint8_t* out) {
  const float levels = static_cast<float>((1 << kv_code_bits(code)) - 1);
  F32x16 largest = load_first(x, lanes_left(0, count));
  if (count < 16)
    largest = select(lanes_between(0, static_cast<int>(count)), largest, broadcast(x[0]));
  F32x16 negated = zero() - largest;
  for (int64_t i = 16; i < count; i += 16) {
    const int n = lanes_left(i, count);
    const F32x16 v = select(lanes_between(0, n), load_first(x + i, n), broadcast(x[0]));
    largest = max(largest, v);
    negated = max(negated, zero() - v);
  }
  // Adding zero makes -0 a +0: which of the two an instruction set finds first must not show.
  const float minimum = 0.0f - max_lane(negated) + 0.0f;
  const float range = max_lane(largest) - minimum;
  const CodeScale stored{float_to_half(range / levels), float_to_half(minimum)};
  const float step = half_to_float(stored.scale);
  for (int64_t i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    F32x16 steps = zero();
    if (step > 0.0f) {
      steps = (load_first(x + i, n) - broadcast(minimum)) / broadcast(step);
      steps = max(min(round_even(steps), broadcast(levels)), zero());
    }
    alignas(16) uint8_t codes[16];
    store_uint8(codes, select(lanes_between(0, n), steps, zero()));
    pack_codes(code, codes, out + kv_code_bytes(code, i));
  }
  return stored;
}

/// One head's K: a channel's 64 slots at a time.
template <class E>
static void seal_keys(const KvGroupShape& shape, const std::byte* open, std::byte* sealed) {
  const auto* rows = reinterpret_cast<const typename E::Stored*>(open);
  auto* codes = reinterpret_cast<uint8_t*>(sealed);
  auto* scales = reinterpret_cast<uint16_t*>(sealed + shape.sealed_key_scales());
  uint16_t* minima = scales + shape.padded_dim();
  std::memset(scales, 0, static_cast<size_t>(shape.padded_dim()) * 2 * sizeof(uint16_t));
  float x[kPageSlots];
  for (int32_t d = 0; d < shape.head_dim; ++d) {
    for (int s = 0; s < kPageSlots; s += 16) store(x + s, E::load16(rows + d * kPageSlots + s));
    const CodeScale stored = encode(shape.key_code, x, kPageSlots,
                                    codes + d * kv_code_bytes(shape.key_code, kPageSlots));
    scales[d] = stored.scale;
    minima[d] = stored.minimum;
  }
}

/// One head's V: a token's channels at a time.
template <class E>
static void seal_values(const KvGroupShape& shape, const std::byte* open, std::byte* sealed) {
  const auto* rows = reinterpret_cast<const typename E::Stored*>(open);
  auto* codes = reinterpret_cast<uint8_t*>(sealed);
  auto* scales = reinterpret_cast<uint16_t*>(sealed + shape.sealed_value_scales());
  float x[kMaxSealedHeadDim];
  for (int s = 0; s < kPageSlots; ++s) {
    const typename E::Stored* row = rows + int64_t{s} * shape.head_dim;
    for (int32_t d = 0; d < shape.head_dim; d += 16) {
      typename E::Stored part[16] = {};
      std::memcpy(part, row + d,
                  sizeof(part[0]) * static_cast<size_t>(lanes_left(d, shape.head_dim)));
      store(x + d, E::load16(part));
    }
    const CodeScale stored =
        encode(shape.value_code, x, shape.head_dim,
               codes + s * kv_code_bytes(shape.value_code, shape.padded_dim()));
    scales[s] = stored.scale;
    scales[kPageSlots + s] = stored.minimum;
  }
}

static void seal_kv(const SealKvArgs& args, int32_t kv_head_begin, int32_t kv_head_end) {
  const KvGroupShape& shape = args.kv->shape;
  const PageSpan& page = args.kv->pages[static_cast<size_t>(args.page)];
  for (int32_t head = kv_head_begin; head < kv_head_end; ++head) {
    const std::byte* keys = page.page + shape.key_offset(args.layer, head);
    std::byte* sealed_keys = page.sealed + shape.sealed_key_offset(args.layer, head);
    if (shape.key_code == KvCode::kNone) {
      std::memcpy(sealed_keys, keys, static_cast<size_t>(shape.key_plane_bytes()));
    } else {
      seal_keys<HalfElement>(shape, keys, sealed_keys);
    }
    const std::byte* values = page.page + shape.value_offset(args.layer, head);
    std::byte* sealed_values = page.sealed + shape.sealed_value_offset(args.layer, head);
    if (shape.value_code == KvCode::kNone) {
      std::memcpy(sealed_values, values, static_cast<size_t>(shape.value_plane_bytes()));
    } else {
      seal_values<HalfElement>(shape, values, sealed_values);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
