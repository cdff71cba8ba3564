// paged_sequence.h: a sequence in KV pages for tests of the kernels, and the sets to test.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/huge_buffer.h"
#include "kernels/kernel_set.h"
#include "kernels/paged_kv_view.h"

namespace quire::kernels {

/// The kernel sets of this machine, the plain reference first.
std::vector<const KernelSet*> available_sets();

/// Normally distributed numbers, the same for the same seed.
std::vector<float> random_floats(int64_t count, uint32_t seed, float deviation = 1.0f);

/// One layer of one sequence at positions [0, num_tokens), in its own pages.
class PagedSequence {
 public:
  /// Every byte of the pages is `fill` at first.
  PagedSequence(KvGroupShape shape, int32_t num_tokens, uint8_t fill = 0);

  /// Random keys and values at every position, written with `set`.
  void store_random(const KernelSet& set, uint32_t seed);
  void store(const KernelSet& set, std::span<const float> k, std::span<const float> v);

  /// Seals every full page but the one at position 0 with `set`. Requires a lossy shape.
  void seal(const KernelSet& set);

  /// What a query at `reader` reads at `position` by the rule of positions, decoded without the
  /// kernels.
  float key_for(int32_t reader, int32_t kv_head, int32_t position, int32_t dim) const;
  float value_for(int32_t reader, int32_t kv_head, int32_t position, int32_t dim) const;

  /// What an open page holds, as the kernels read it.
  float key(int32_t kv_head, int32_t position, int32_t dim) const;
  float value(int32_t kv_head, int32_t position, int32_t dim) const;

  PagedKvView& view() { return view_; }
  const PagedKvView& view() const { return view_; }
  std::vector<PageSpan>& pages() { return pages_; }
  /// Call after a change of pages().
  void refresh() { view_.pages = pages_; }
  std::span<const std::byte> bytes() const { return {memory_.data(), memory_.size()}; }
  std::span<const std::byte> sealed_bytes() const { return {sealed_.data(), sealed_.size()}; }
  int64_t row_floats() const { return int64_t{view_.shape.num_kv_heads} * view_.shape.head_dim; }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  const PageSpan& page_of(int32_t position) const;
  bool reads_sealed(int32_t reader, int32_t position) const;

  int32_t num_tokens_;
  HugeBuffer memory_;
  HugeBuffer sealed_;
  std::vector<PageSpan> pages_;
  PagedKvView view_;
};

}  // namespace quire::kernels
