// store_kv.inl: writing rows of keys and values into pages; contract in ../kernel_set.h.
#pragma once
#include <cstring>

#include "kernels/impl/kv_element.inl"
#include "kernels/impl/lanes.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

/// The page that holds or reserves `position`. The scheduler has reserved one for every row:
/// without it the row could only be lost silently, so this traps.
static const PageSpan* page_of(const PagedKvView& kv, int64_t position) {
  const PageSpan* pages = kv.pages.data();
  int64_t low = 0;
  int64_t high = static_cast<int64_t>(kv.pages.size());
  while (low < high) {  // the first page that starts after position
    const int64_t middle = (low + high) / 2;
    const bool after = int64_t{pages[middle].logical_base} + pages[middle].begin > position;
    (after ? high : low) = after ? middle : middle + 1;
  }
  if (low == 0 || position >= int64_t{pages[low - 1].logical_base} + pages[low - 1].end) {
    __builtin_trap();
  }
  return pages + low - 1;
}

/// Numbers x[0, count), count at most 16, in the page's type; the rest of `out` is padding.
template <class E>
static void convert_first(const float* x, int count, typename E::Stored* out) {
  E::store16(out, load_first(x, count));
}

/// Transposes rows into slots [slot, slot + rows) of one head, 16 dimensions at a time, so that
/// every dimension is written as one contiguous run.
template <class E>
static void store_keys(const float* k, int64_t stride, int64_t rows, int32_t head_dim,
                       typename E::Stored* plane, int64_t slot) {
  typename E::Stored rounded[kPageSlots][16];
  for (int32_t d = 0; d < head_dim; d += 16) {
    const int n = lanes_left(d, head_dim);
    for (int64_t r = 0; r < rows; ++r) convert_first<E>(k + r * stride + d, n, rounded[r]);
    for (int i = 0; i < n; ++i) {
      typename E::Stored* out = plane + int64_t{d + i} * kPageSlots + slot;
      for (int64_t r = 0; r < rows; ++r) out[r] = rounded[r][i];
    }
  }
}

/// Writes rows into slots [slot, slot + rows) of one head.
template <class E>
static void store_values(const float* v, int64_t stride, int64_t rows, int32_t head_dim,
                         typename E::Stored* plane, int64_t slot) {
  for (int64_t r = 0; r < rows; ++r) {
    typename E::Stored* out = plane + (slot + r) * head_dim;
    int32_t d = 0;
    for (; d + 16 <= head_dim; d += 16) E::store16(out + d, load(v + r * stride + d));
    if (d < head_dim) {
      typename E::Stored rounded[16];
      convert_first<E>(v + r * stride + d, head_dim - d, rounded);
      std::memcpy(out + d, rounded, sizeof(rounded[0]) * static_cast<size_t>(head_dim - d));
    }
  }
}

/// Rows [row, row + rows), which lie in one page from `slot` on.
template <class KeyElement, class ValueElement>
static void store_run(const StoreKvArgs& args, std::byte* page, int64_t row, int64_t rows,
                      int64_t slot) {
  const KvGroupShape& shape = args.kv->shape;
  for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
    const int64_t source = row * args.kv_stride + int64_t{head} * shape.head_dim;
    std::byte* keys = page + shape.key_offset(args.layer, head);
    std::byte* values = page + shape.value_offset(args.layer, head);
    store_keys<KeyElement>(args.k + source, args.kv_stride, rows, shape.head_dim,
                           reinterpret_cast<typename KeyElement::Stored*>(keys), slot);
    store_values<ValueElement>(args.v + source, args.kv_stride, rows, shape.head_dim,
                               reinterpret_cast<typename ValueElement::Stored*>(values), slot);
  }
}

template <class KeyElement>
static void store_run_as(const StoreKvArgs& args, std::byte* page, int64_t row, int64_t rows,
                         int64_t slot) {
  switch (args.kv->shape.value) {
    case KvElement::F32:
      return store_run<KeyElement, FloatElement>(args, page, row, rows, slot);
    case KvElement::F16:
      return store_run<KeyElement, HalfElement>(args, page, row, rows, slot);
    case KvElement::BF16:
      return store_run<KeyElement, BfloatElement>(args, page, row, rows, slot);
  }
}

static void store_kv(const StoreKvArgs& args, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end;) {
    const int64_t position = args.first_position + row;
    const PageSpan* page = page_of(*args.kv, position);
    const int64_t slot = position - page->logical_base;
    const int64_t room = page->end - slot;
    const int64_t rows = row_end - row < room ? row_end - row : room;
    switch (args.kv->shape.key) {
      case KvElement::F32:
        store_run_as<FloatElement>(args, page->page, row, rows, slot);
        break;
      case KvElement::F16:
        store_run_as<HalfElement>(args, page->page, row, rows, slot);
        break;
      case KvElement::BF16:
        store_run_as<BfloatElement>(args, page->page, row, rows, slot);
        break;
    }
    row += rows;
  }
}

}  // namespace quire::kernels::QUIRE_ISA
