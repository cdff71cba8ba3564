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
