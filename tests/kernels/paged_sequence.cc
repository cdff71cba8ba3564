#include "kernels/paged_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/simd/scalar.h"

namespace quire::kernels {
namespace {

float number_at(const std::byte* plane, KvElement element, int64_t index) {
  if (element == KvElement::F32) {
    float number;
    std::memcpy(&number, plane + index * 4, 4);
    return number;
  }
  uint16_t bits;
  std::memcpy(&bits, plane + index * 2, 2);
  if (element == KvElement::F16) return scalar::half_to_float(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Code number `index` of a run of packed codes, by the bit planes that kv_code_bytes() describes.
int code_at(const std::byte* run, KvCode code, int64_t index) {
  const auto* unit = reinterpret_cast<const uint8_t*>(run) + kv_code_bytes(code, index / 16 * 16);
  const int64_t j = index % 16;
  const int pair = unit[j % 4] >> (2 * (j / 4)) & 3;
  const int nibble = unit[j % 8] >> (4 * (j / 8)) & 15;
  switch (code) {
    case KvCode::kNone:
      break;
    case KvCode::kQ8:
      return unit[j];
    case KvCode::kQ6:
      return nibble | (unit[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
    case KvCode::kQ4:
      return nibble;
    case KvCode::kQ3:
      return pair | (unit[4 + j / 8] >> (j % 8) & 1) << 2;
    case KvCode::kQ2:
      return pair;
  }
  ADD_FAILURE() << "rows without codes";
  return 0;
}

float decoded(const std::byte* scales, int64_t num_scales, int64_t index, int code) {
  const float scale = number_at(scales, KvElement::F16, index);
  const float minimum = number_at(scales, KvElement::F16, num_scales + index);
  return minimum + scale * static_cast<float>(code);
}

}  // namespace

std::vector<const KernelSet*> available_sets() {
  std::vector<const KernelSet*> sets;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (const KernelSet* set = kernels_for(isa)) sets.push_back(set);
  }
  return sets;
}

std::vector<float> random_floats(int64_t count, uint32_t seed, float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(generator);
  return numbers;
}

PagedSequence::PagedSequence(KvGroupShape shape, int32_t num_tokens, uint8_t fill)
    : num_tokens_(num_tokens) {
  const int32_t num_pages = (num_tokens + kPageSlots - 1) / kPageSlots;
  memory_ = HugeBuffer::allocate(static_cast<size_t>(num_pages * shape.page_bytes())).value();
  std::memset(memory_.data(), fill, memory_.size());
  for (int32_t i = 0; i < num_pages; ++i) {
    const int32_t base = i * kPageSlots;
    const int32_t end = std::min(kPageSlots, num_tokens - base);
    pages_.push_back({.page = memory_.data() + i * shape.page_bytes(),
                      .stored_base = base,
                      .logical_base = base,
                      .begin = 0,
                      .end = static_cast<int16_t>(end)});
  }
  view_.shape = shape;
  refresh();
}

void PagedSequence::store_random(const KernelSet& set, uint32_t seed) {
  const std::vector<float> k = random_floats(num_tokens_ * row_floats(), seed);
  const std::vector<float> v = random_floats(num_tokens_ * row_floats(), seed + 1);
  store(set, k, v);
}

void PagedSequence::store(const KernelSet& set, std::span<const float> k,
                          std::span<const float> v) {
  const StoreKvArgs args{.kv = &view_,
                         .layer = 0,
                         .first_position = 0,
                         .k = k.data(),
                         .v = v.data(),
                         .kv_stride = row_floats()};
  set.store_kv(args, 0, num_tokens_);
}

void PagedSequence::seal(const KernelSet& set) {
  const KvGroupShape& shape = view_.shape;
  const auto num_pages = static_cast<int64_t>(pages_.size());
  sealed_ =
      HugeBuffer::allocate(static_cast<size_t>(num_pages * shape.sealed_page_bytes())).value();
  for (size_t i = 0; i < pages_.size(); ++i) {
    PageSpan& page = pages_[i];
    if (page.logical_base == 0 || page.end < kPageSlots) continue;
    page.sealed = sealed_.data() + static_cast<int64_t>(i) * shape.sealed_page_bytes();
  }
  refresh();
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i].sealed == nullptr) continue;
    set.seal_kv({.kv = &view_, .layer = 0, .page = static_cast<int32_t>(i)}, 0, shape.num_kv_heads);
  }
}

bool PagedSequence::reads_sealed(int32_t reader, int32_t position) const {
  const int32_t page = position / kPageSlots;
  return view_.shape.is_lossy() && page != 0 && page != reader / kPageSlots;
}

float PagedSequence::key_for(int32_t reader, int32_t kv_head, int32_t position, int32_t dim) const {
  const KvGroupShape& shape = view_.shape;
  if (!reads_sealed(reader, position) || shape.key_code == KvCode::kNone) {
    return key(kv_head, position, dim);
  }
  const std::byte* plane = page_of(position).sealed + shape.sealed_key_offset(0, kv_head);
  const std::byte* row = plane + dim * kv_code_bytes(shape.key_code, kPageSlots);
  return decoded(plane + shape.sealed_key_scales(), shape.padded_dim(), dim,
                 code_at(row, shape.key_code, position % kPageSlots));
}

float PagedSequence::value_for(int32_t reader, int32_t kv_head, int32_t position,
                               int32_t dim) const {
  const KvGroupShape& shape = view_.shape;
  if (!reads_sealed(reader, position) || shape.value_code == KvCode::kNone) {
    return value(kv_head, position, dim);
  }
  const int32_t slot = position % kPageSlots;
  const std::byte* plane = page_of(position).sealed + shape.sealed_value_offset(0, kv_head);
  const std::byte* row = plane + slot * kv_code_bytes(shape.value_code, shape.padded_dim());
  return decoded(plane + shape.sealed_value_scales(), kPageSlots, slot,
                 code_at(row, shape.value_code, dim));
}

const PageSpan& PagedSequence::page_of(int32_t position) const {
  for (const PageSpan& page : pages_) {
    const int32_t slot = position - page.logical_base;
    if (slot >= page.begin && slot < page.end) return page;
  }
  ADD_FAILURE() << "no page holds position " << position;
  return pages_.front();
}

float PagedSequence::key(int32_t kv_head, int32_t position, int32_t dim) const {
  const PageSpan& page = page_of(position);
  const int64_t index = int64_t{dim} * kPageSlots + (position - page.logical_base);
  return number_at(page.page + view_.shape.key_offset(0, kv_head), view_.shape.key, index);
}

float PagedSequence::value(int32_t kv_head, int32_t position, int32_t dim) const {
  const PageSpan& page = page_of(position);
  const int64_t index = int64_t{position - page.logical_base} * view_.shape.head_dim + dim;
  return number_at(page.page + view_.shape.value_offset(0, kv_head), view_.shape.value, index);
}

}  // namespace quire::kernels
