// row_io.h: writes and reads one token's rows in a page, byte by byte, from the layout in DESIGN.
//
// K is [head_dim][64 slots], V is [64 slots][head_dim], per layer and kv head. The addresses are
// computed here and not by kernels::KvGroupShape, so that tests do not repeat its mistakes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/paged_kv_view.h"

namespace quire::kv {

/// All K and V elements of one token in one layer group.
using Row = std::vector<std::byte>;

/// Calls visit(address, bytes) for each element of the token in `slot`, in a fixed order.
template <class Visit>
void for_each_element(const kernels::KvGroupShape& shape, std::byte* page, int slot, Visit visit) {
  const int64_t k_bytes = shape.key == kernels::KvElement::F32 ? 4 : 2;
  const int64_t v_bytes = shape.value == kernels::KvElement::F32 ? 4 : 2;
  std::byte* plane = page;
  for (int32_t head = 0; head < shape.num_layers * shape.num_kv_heads; ++head) {
    for (int32_t d = 0; d < shape.head_dim; ++d) visit(plane + (d * 64 + slot) * k_bytes, k_bytes);
    plane += shape.head_dim * 64 * k_bytes;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      visit(plane + (slot * shape.head_dim + d) * v_bytes, v_bytes);
    }
    plane += shape.head_dim * 64 * v_bytes;
  }
}

/// The span that holds `position`, or null.
inline const kernels::PageSpan* find_span(const kernels::PagedKvView& view, int64_t position) {
  for (const kernels::PageSpan& span : view.pages) {
    const int64_t slot = position - span.logical_base;
    if (slot >= span.begin && slot < span.end) return &span;
  }
  return nullptr;
}

inline void write_row(const kernels::KvGroupShape& shape, const kernels::PageSpan& span,
                      int64_t position, const Row& row) {
  size_t next = 0;
  const auto slot = static_cast<int>(position - span.logical_base);
  for_each_element(shape, span.page, slot, [&](std::byte* element, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i) element[i] = row.at(next++);
  });
}

inline bool holds_row(const kernels::KvGroupShape& shape, const kernels::PageSpan& span,
                      int64_t position, const Row& row) {
  size_t next = 0;
  bool equal = true;
  const auto slot = static_cast<int>(position - span.logical_base);
  for_each_element(shape, span.page, slot, [&](std::byte* element, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i) equal = equal && element[i] == row[next++];
  });
  return equal && next == row.size();
}

/// The same for the elements of one layer, all that need be there in a streamed view.
inline bool holds_layer(const kernels::KvGroupShape& shape, const kernels::PageSpan& span,
                        int64_t position, const Row& row, int32_t layer) {
  kernels::KvGroupShape one = shape;
  one.num_layers = 1;
  const int64_t k_bytes = shape.key == kernels::KvElement::F32 ? 4 : 2;
  const int64_t v_bytes = shape.value == kernels::KvElement::F32 ? 4 : 2;
  const int64_t head_row = int64_t{shape.head_dim} * (k_bytes + v_bytes);
  const auto layer_row = static_cast<size_t>(head_row * shape.num_kv_heads);
  const auto begin = row.begin() + static_cast<std::ptrdiff_t>(layer_row) * layer;
  kernels::PageSpan layer_span = span;
  layer_span.page = reinterpret_cast<std::byte*>(
      reinterpret_cast<uintptr_t>(span.page) +
      static_cast<uintptr_t>(int64_t{layer} * shape.num_kv_heads * head_row * 64));
  return holds_row(one, layer_span, position,
                   Row(begin, begin + static_cast<std::ptrdiff_t>(layer_row)));
}

}  // namespace quire::kv
