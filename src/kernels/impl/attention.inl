// attention.inl: paged attention for prefill and decode; contracts in ../kernel_set.h.
//
// Work is a list of queries: pairs of a row and a query head of one kv head's group, rows
// ascending. A batch of them walks the pages in order; each query's arithmetic is the same whatever
// its batch:
//
//   page   scores = q . K, fma over dimensions; weights = e^(scores - max);
//          output += weights . V, fma over slots
//   split  4 pages from a fresh softmax, then merged into the total, splits ascending
//
// Invisible slots contribute nothing, so pages that no query of the batch sees are passed over and
// freed pages need not be there.
#pragma once
#include <cstring>

#include "kernels/impl/attention_softmax.inl"
#include "kernels/impl/attention_tile.inl"
#include "kernels/impl/pointwise.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

inline constexpr int kBatchFloats = 6144;  // 48 queries of 128 dimensions, 24 of 256
inline constexpr int kChunk = 64;          // dimensions converted at a time: 16 KiB of floats
/// From here on a page is converted to floats once for all tiles, instead of once in each.
inline constexpr int kConvertQueries = 2 * kTileRows;

/// Queries of one kv head with their running softmax; about 80 KiB, on the stack.
struct QueryBatch {
  int count;
  int64_t dims;  // head_dim rounded up to 16; the padding is zero
  int64_t position[kBatchQueries];
  float* out[kBatchQueries];  // the total output, in the caller's memory // [head_dim]
  Softmaxes split;
  Softmaxes total;
  float factor[kBatchQueries];             // by what the page at hand rescales the output
  alignas(64) float q[kBatchFloats];       // [count, dims], scaled
  alignas(64) float output[kBatchFloats];  // [count, dims], of the split
  alignas(64) float scores[kBatchQueries * kPageSlots];
  alignas(64) float chunk[kChunk * kPageSlots];
};

/// Where attention stands: which kv head, which page.
struct PageCursor {
  const AttentionArgs& args;
  int32_t kv_head;
  const PageSpan* pages;
  int64_t num_pages;
  int64_t index;
};

static PageCursor first_page(const AttentionArgs& args, int32_t kv_head) {
  return {args, kv_head, args.kv->pages.data(), static_cast<int64_t>(args.kv->pages.size()), 0};
}

QUIRE_ALWAYS_INLINE int32_t split_of(const PageSpan& page) {
  return page.logical_base > 0 ? page.logical_base / kSplitTokens : 0;
}

/// Queries that fit a batch: whole tiles where possible.
static int64_t batch_capacity(int64_t dims) {
  const int64_t fit = kBatchFloats / dims < kBatchQueries ? kBatchFloats / dims : kBatchQueries;
  return fit >= kTileRows ? fit / kTileRows * kTileRows : fit;
}

static int64_t padded(int32_t head_dim) {
  return (int64_t{head_dim} + 15) / 16 * 16;
}

/// Takes queries [first, first + count) of those that start at row `row_begin`.
static void load_queries(const PageCursor& at, int64_t row_begin, int64_t first, int64_t count,
                         QueryBatch& batch) {
  const AttentionArgs& args = at.args;
  const int32_t head_dim = args.kv->shape.head_dim;
  const int32_t group = args.num_heads / args.kv->shape.num_kv_heads;
  batch.count = static_cast<int>(count);
  batch.dims = padded(head_dim);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = row_begin + (first + i) / group;
    const int64_t head = int64_t{at.kv_head} * group + (first + i) % group;
    batch.position[i] = args.first_position + row;
    batch.out[i] = args.out + row * args.out_stride + head * head_dim;
    const float* q = args.q + row * args.q_stride + head * head_dim;
    for (int32_t d = 0; d < head_dim; d += 16) {
      const int n = lanes_left(d, head_dim);
      store(batch.q + i * batch.dims + d, load_first(q + d, n) * broadcast(args.scale));
    }
  }
}

static void start_split(QueryBatch& batch) {
  start_softmaxes(batch.split, batch.count);
  std::memset(batch.output, 0, sizeof(float) * static_cast<size_t>(batch.count * batch.dims));
}

/// Slots of `page` that a query at `position` sees.
QUIRE_ALWAYS_INLINE SlotRange visible_slots(const PageSpan& page, int32_t window,
                                            int64_t position) {
  const int64_t last = position - page.logical_base;  // causality: the query's own slot
  const int64_t first = window > 0 ? last - window + 1 : 0;
  return {static_cast<int>(first > page.begin ? first : page.begin),
          static_cast<int>(last + 1 < page.end ? last + 1 : page.end)};
}

/// A page's K or V as numbers of element E, and the same plane of the page that will be read next.
template <class E>
struct Plane {
  const typename E::Stored* here;
  const typename E::Stored* ahead;
};

template <class E>
static Plane<E> plane_at(const PageCursor& at, int64_t offset) {
  const PageSpan* next = at.pages + (at.index + 1 < at.num_pages ? at.index + 1 : at.index);
  return {reinterpret_cast<const typename E::Stored*>(at.pages[at.index].page + offset),
          reinterpret_cast<const typename E::Stored*>(next->page + offset)};
}

/// [rows, stride] to floats [rows, 64] for columns [0, columns), padded with zeros to 16. Exact.
template <class E>
static void convert(const typename E::Stored* from, int64_t stride, int64_t rows, int64_t columns,
                    float* to) {
  for (int64_t r = 0; r < rows; ++r, from += stride, to += kChunk) {
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) store(to + c, E::load16(from + c));
    if (c < columns) {
      typename E::Stored tail[16] = {};
      std::memcpy(tail, from + c, sizeof(tail[0]) * static_cast<size_t>(columns - c));
      store(to + c, E::load16(tail));
    }
  }
}

/// Queries [begin, end) of a batch, and the slots that any of them sees.
struct ActiveQueries {
  int begin;
  int end;
  SlotRange slots;
};

/// scores[i][slot] = q[i] . K[:, slot] for the active queries and all slots.
template <class E>
static void score_page(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  const KvGroupShape& shape = at.args.kv->shape;
  const Plane<E> keys = plane_at<E>(at, shape.key_offset(at.args.layer, at.kv_head));
  const int rows = active.end - active.begin;
  // Keys are rotated for the page's stored_base, and so is the query: both equal logical_base.
  const float* q = batch.q + active.begin * batch.dims;
  float* scores = batch.scores + active.begin * kPageSlots;
  if (sizeof(typename E::Stored) == sizeof(float) || rows < kConvertQueries) {
    multiply<E>({q, batch.dims, keys.here, keys.ahead, kPageSlots, shape.head_dim, kPageSlots,
                 scores, kPageSlots, Start::kZero},
                rows);
    return;
  }
  for (int32_t d = 0; d < shape.head_dim; d += kChunk) {
    const int32_t n = shape.head_dim - d < kChunk ? shape.head_dim - d : kChunk;
    convert<E>(keys.here + int64_t{d} * kPageSlots, kPageSlots, n, kPageSlots, batch.chunk);
    multiply<FloatElement>({q + d, batch.dims, batch.chunk, batch.chunk, kPageSlots, n, kPageSlots,
                            scores, kPageSlots, d == 0 ? Start::kZero : Start::kKeep},
                           rows);
  }
}

/// output[i] = factor[i] output[i] + weights[i] . V for the active queries, over the slots that any
/// of them sees: what lies in other slots is never read.
template <class E>
static void weigh_page(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  const KvGroupShape& shape = at.args.kv->shape;
  const Plane<E> values = plane_at<E>(at, shape.value_offset(at.args.layer, at.kv_head));
  const int rows = active.end - active.begin;
  const int64_t first_value = int64_t{active.slots.begin} * shape.head_dim;
  const int64_t slots = active.slots.end - active.slots.begin;
  const float* weights = batch.scores + active.begin * kPageSlots + active.slots.begin;
  float* output = batch.output + active.begin * batch.dims;
  const float* factor = batch.factor + active.begin;
  const bool direct = sizeof(typename E::Stored) == sizeof(float) || rows < kConvertQueries;
  if (direct && shape.head_dim % 16 == 0) {
    multiply<E>({weights, kPageSlots, values.here + first_value, values.ahead + first_value,
                 shape.head_dim, slots, shape.head_dim, output, batch.dims, Start::kScaled, factor},
                rows);
    return;
  }
  for (int32_t d = 0; d < shape.head_dim; d += kChunk) {
    const int32_t n = shape.head_dim - d < kChunk ? shape.head_dim - d : kChunk;
    convert<E>(values.here + first_value + d, shape.head_dim, slots, n, batch.chunk);
    multiply<FloatElement>({weights, kPageSlots, batch.chunk, batch.chunk, kChunk, slots, padded(n),
                            output + d, batch.dims, Start::kScaled, factor},
                           rows);
  }
}

/// The queries of the batch that see anything of the page: rows ascend, so they are consecutive.
static ActiveQueries active_queries(const PageSpan& page, int32_t window, const QueryBatch& batch) {
  ActiveQueries active{0, batch.count, {0, 0}};
  const auto sees = [&](int i) {
    const SlotRange slots = visible_slots(page, window, batch.position[i]);
    return slots.begin < slots.end;
  };
  while (active.begin < active.end && !sees(active.begin)) ++active.begin;
  while (active.begin < active.end && !sees(active.end - 1)) --active.end;
  if (active.begin < active.end) {
    active.slots.begin = visible_slots(page, window, batch.position[active.begin]).begin;
    active.slots.end = visible_slots(page, window, batch.position[active.end - 1]).end;
  }
  return active;
}

static void attend_page(const PageCursor& at, QueryBatch& batch) {
  const PagedKvView& kv = *at.args.kv;
  const PageSpan& page = at.pages[at.index];
  const ActiveQueries active = active_queries(page, kv.window, batch);
  if (active.begin == active.end) return;
  switch (kv.shape.key) {
    case KvElement::F32:
      score_page<FloatElement>(at, active, batch);
      break;
    case KvElement::F16:
      score_page<HalfElement>(at, active, batch);
      break;
    case KvElement::BF16:
      score_page<BfloatElement>(at, active, batch);
      break;
  }
  if (at.args.soft_cap > 0.0f) {
    soft_cap(batch.scores + active.begin * kPageSlots, at.args.soft_cap,
             int64_t{active.end - active.begin} * kPageSlots);
  }
  for (int i = active.begin; i < active.end; ++i) {
    const SlotRange visible = visible_slots(page, kv.window, batch.position[i]);
    if (visible.begin > 0 || visible.end < kPageSlots) {
      hide_slots_outside(visible, batch.scores + i * kPageSlots);
    }
  }
  raise_maxima(batch.scores, active.begin, active.end, batch.split, batch.factor);
  weigh_scores(batch.scores, active.begin, active.end, batch.split);
  switch (kv.shape.value) {
    case KvElement::F32:
      weigh_page<FloatElement>(at, active, batch);
      break;
    case KvElement::F16:
      weigh_page<HalfElement>(at, active, batch);
      break;
    case KvElement::BF16:
      weigh_page<BfloatElement>(at, active, batch);
      break;
  }
}

/// Runs the batch over the pages of `split`, from the cursor on; leaves the cursor behind them.
static void attend_split(PageCursor& at, int32_t split, QueryBatch& batch) {
  start_split(batch);
  for (; at.index < at.num_pages && split_of(at.pages[at.index]) == split; ++at.index) {
    attend_page(at, batch);
  }
}

static void clear_output(float* output, int32_t head_dim) {
  std::memset(output, 0, sizeof(float) * static_cast<size_t>(head_dim));
}

/// Merges the split's result into the total.
static void merge_batch(QueryBatch& batch, int32_t head_dim) {
  MergeFactors factors;
  merge_softmaxes(batch.split, batch.count, batch.total, factors);
  for (int i = 0; i < batch.count; ++i) {
    merge_output(factors, i, batch.output + i * batch.dims, batch.out[i], head_dim);
  }
}

static void attend_batch(PageCursor at, QueryBatch& batch) {
  const int32_t head_dim = at.args.kv->shape.head_dim;
  const int64_t last_position = batch.position[batch.count - 1];
  start_softmaxes(batch.total, batch.count);
  for (int i = 0; i < batch.count; ++i) clear_output(batch.out[i], head_dim);
  while (at.index < at.num_pages && at.pages[at.index].logical_base <= last_position) {
    attend_split(at, split_of(at.pages[at.index]), batch);
    merge_batch(batch, head_dim);
  }
  for (int i = 0; i < batch.count; ++i) {
    finish_output(batch.total.denominator[i], batch.out[i], head_dim);
  }
}

static void attention(const AttentionArgs& args, int32_t kv_head, int64_t row_begin,
                      int64_t row_end) {
  QueryBatch batch;
  const PageCursor at = first_page(args, kv_head);
  const int64_t group = args.num_heads / args.kv->shape.num_kv_heads;
  const int64_t queries = (row_end - row_begin) * group;
  const int64_t capacity = batch_capacity(padded(args.kv->shape.head_dim));
  for (int64_t first = 0; first < queries; first += capacity) {
    const int64_t count = queries - first < capacity ? queries - first : capacity;
    load_queries(at, row_begin, first, count, batch);
    attend_batch(at, batch);
  }
}

/// Moves the cursor to the first page of `split` or a later one.
static void seek_split(PageCursor& at, int32_t split) {
  int64_t low = 0;
  int64_t high = at.num_pages;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (split_of(at.pages[middle]) < split) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  at.index = low;
}

/// A partial result: max, denominator and 14 zeros, then the output.
static void store_partial(const QueryBatch& batch, int i, int32_t head_dim, float* partial) {
  store(partial, zero());
  partial[0] = batch.split.max[i];
  partial[1] = batch.split.denominator[i];
  std::memcpy(partial + 16, batch.output + i * batch.dims,
              sizeof(float) * static_cast<size_t>(head_dim));
}

static void attention_split(const AttentionArgs& args, int32_t kv_head, int64_t row, int32_t split,
                            float* partial) {
  QueryBatch batch;
  PageCursor at = first_page(args, kv_head);
  const int32_t head_dim = args.kv->shape.head_dim;
  const int64_t group = args.num_heads / args.kv->shape.num_kv_heads;
  const int64_t capacity = batch_capacity(padded(head_dim));
  for (int64_t first = 0; first < group; first += capacity) {
    const int64_t count = group - first < capacity ? group - first : capacity;
    load_queries(at, row, first, count, batch);
    seek_split(at, split);
    attend_split(at, split, batch);
    for (int i = 0; i < batch.count; ++i) {
      store_partial(batch, i, head_dim, partial + (first + i) * attention_partial_floats(head_dim));
    }
  }
}

/// Merges the splits of `count` query heads of a group. // out: [count, head_dim]
static void merge_heads(const float* partials, int64_t partial_stride, int32_t num_splits,
                        int count, int32_t head_dim, float* out) {
  Softmaxes split;
  Softmaxes total;
  MergeFactors factors;
  start_softmaxes(total, count);
  for (int i = 0; i < count; ++i) clear_output(out + int64_t{i} * head_dim, head_dim);
  for (int32_t s = 0; s < num_splits; ++s, partials += partial_stride) {
    const auto partial = [&](int i) { return partials + i * attention_partial_floats(head_dim); };
    for (int i = 0; i < count; ++i) {
      split.max[i] = partial(i)[0];
      split.denominator[i] = partial(i)[1];
    }
    merge_softmaxes(split, count, total, factors);
    for (int i = 0; i < count; ++i) {
      merge_output(factors, i, partial(i) + 16, out + int64_t{i} * head_dim, head_dim);
    }
  }
  for (int i = 0; i < count; ++i) {
    finish_output(total.denominator[i], out + int64_t{i} * head_dim, head_dim);
  }
}

static void attention_merge(const AttentionArgs& args, int32_t kv_head, int64_t row,
                            int32_t num_splits, const float* partials) {
  const int32_t head_dim = args.kv->shape.head_dim;
  const int64_t group = args.num_heads / args.kv->shape.num_kv_heads;
  const int64_t partial_floats = attention_partial_floats(head_dim);
  float* out = args.out + row * args.out_stride + kv_head * group * head_dim;
  for (int64_t first = 0; first < group; first += kBatchQueries) {
    const int64_t count = group - first < kBatchQueries ? group - first : kBatchQueries;
    merge_heads(partials + first * partial_floats, group * partial_floats, num_splits,
                static_cast<int>(count), head_dim, out + first * head_dim);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
