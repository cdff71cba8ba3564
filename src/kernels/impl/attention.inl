// attention.inl: paged attention for prefill and decode; contracts in ../kernel_set.h.
//
// Work is a list of queries: pairs of a row and a query head of one kv head's group, rows
// ascending. A batch of them walks the pages in order, a few at a time over each page; each query's
// arithmetic is the same whatever its batch:
//
//   page   scores = q . K, fma over dimensions; weights = e^(scores - max);
//          output += weights . V, fma over slots
//   split  4 pages from a fresh softmax, then merged into the total, splits ascending
//
// Invisible slots contribute nothing, so pages that no query of the batch sees are passed over and
// freed pages need not be there.
#pragma once
#include <cstring>

#include "kernels/impl/attention_page.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

QUIRE_ALWAYS_INLINE int32_t split_of(const PageSpan& page) {
  return page.logical_base > 0 ? page.logical_base / kSplitTokens : 0;
}

/// Queries that fit a batch: whole tiles where possible.
static int64_t batch_capacity(int64_t dims) {
  const int64_t fit = kBatchFloats / dims < kBatchQueries ? kBatchFloats / dims : kBatchQueries;
  return fit >= kTileRows ? fit / kTileRows * kTileRows : fit;
}

/// Takes queries [first, first + count) of those that start at row `row_begin`.
static void load_queries(const PageCursor& at, int64_t row_begin, int64_t first, int64_t count,
                         QueryBatch& batch) {
  const AttentionArgs& args = at.args;
  const int32_t head_dim = args.kv->shape.head_dim;
  const int32_t group = args.num_heads / args.kv->shape.num_kv_heads;
  batch.count = static_cast<int>(count);
  batch.dims = args.kv->shape.padded_dim();
  int64_t row = row_begin + first / group;
  int64_t in_group = first % group;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t head = int64_t{at.kv_head} * group + in_group;
    batch.position[i] = args.first_position + row;
    batch.out[i] = args.out + row * args.out_stride + head * head_dim;
    const float* q = args.q + row * args.q_stride + head * head_dim;
    for (int32_t d = 0; d < head_dim; d += 16) {
      const int n = lanes_left(d, head_dim);
      store(batch.q + i * batch.dims + d, load_first(q + d, n) * broadcast(args.scale));
    }
    if (++in_group == group) {
      in_group = 0;
      ++row;
    }
  }
}

static void start_split(QueryBatch& batch) {
  start_softmaxes(batch.split, batch.count);
  std::memset(batch.output, 0, sizeof(float) * static_cast<size_t>(batch.count * batch.dims));
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
  const int64_t capacity = batch_capacity(args.kv->shape.padded_dim());
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

static void attention_split(const AttentionArgs& args, int32_t kv_head, int64_t row_begin,
                            int64_t row_end, int32_t split, float* partial) {
  QueryBatch batch;
  PageCursor first_of_split = first_page(args, kv_head);
  seek_split(first_of_split, split);
  const int32_t head_dim = args.kv->shape.head_dim;
  const int64_t group = args.num_heads / args.kv->shape.num_kv_heads;
  const int64_t queries = (row_end - row_begin) * group;
  const int64_t capacity = batch_capacity(args.kv->shape.padded_dim());
  for (int64_t first = 0; first < queries; first += capacity) {
    const int64_t count = queries - first < capacity ? queries - first : capacity;
    PageCursor at = first_of_split;
    load_queries(at, row_begin, first, count, batch);
    attend_split(at, split, batch);
    for (int i = 0; i < count; ++i) {
      store_partial(batch, i, head_dim, partial + (first + i) * attention_partial_floats(head_dim));
    }
  }
}

/// Merges the splits of `count` query heads of a group. // out: [count, head_dim]
static void merge_heads(const float* partials, int64_t split_stride, int32_t num_splits, int count,
                        int32_t head_dim, float* out) {
  Softmaxes split;
  Softmaxes total;
  MergeFactors factors;
  start_softmaxes(total, count);
  for (int i = 0; i < count; ++i) clear_output(out + int64_t{i} * head_dim, head_dim);
  for (int32_t s = 0; s < num_splits; ++s, partials += split_stride) {
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
                            int32_t num_splits, const float* partials, int64_t split_stride) {
  const int32_t head_dim = args.kv->shape.head_dim;
  const int64_t group = args.num_heads / args.kv->shape.num_kv_heads;
  const int64_t partial_floats = attention_partial_floats(head_dim);
  float* out = args.out + row * args.out_stride + kv_head * group * head_dim;
  for (int64_t first = 0; first < group; first += kBatchQueries) {
    const int64_t count = group - first < kBatchQueries ? group - first : kBatchQueries;
    merge_heads(partials + first * partial_floats, split_stride, num_splits,
                static_cast<int>(count), head_dim, out + first * head_dim);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
