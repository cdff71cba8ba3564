// attention_page.inl: what a batch of queries does with one page of keys and values.
//
//   scores  = q . K, fma over dimensions; weights = e^(scores - max)
//   output  = factor output + weights . V, fma over slots
//
// With a lossy codec the queries of the page itself read it open, all later ones sealed. There the
// scales are folded into the other factor, and the minima, which are the same for a whole chain,
// come first:
//
//   scores  = q . minimum + (q scale) . codes            per channel
//   output  = factor output + weights . minimum + (weights scale) . codes    per token
//
// Every query's arithmetic is the same whatever its batch.
#pragma once
#include <cstring>

#include "kernels/impl/attention_softmax.inl"
#include "kernels/impl/attention_tile.inl"
#include "kernels/impl/pointwise.inl"
#include "kernels/kernel_set.h"

namespace quire::kernels::QUIRE_ISA {

inline constexpr int kMostActive = 48;  // queries that score a page, and then weigh it, together
inline constexpr int kBatchFloats = 64 * kBatchQueries;  // 96 queries of 128 dimensions, 48 of 256
inline constexpr int kChunk = 64;  // dimensions converted at a time: 16 KiB of floats
/// Batches of so many convert a page to floats once, instead of once in each tile.
inline constexpr int kConvertQueries = 2 * kTileRows;

/// Keys and values of a page as floats, converted for the first queries that read them.
struct FloatPlanes {
  static constexpr int kMost = 4;  // all of 128 dimensions; what finds no place is converted anew
  int used;
  const void* source[kMost];
  alignas(64) float values[kMost][kChunk * kPageSlots];
  alignas(64) float spare[kChunk * kPageSlots];
};

/// Queries of one kv head with their running softmax; about 250 KiB, on the stack.
struct QueryBatch {
  int count;
  int64_t dims;  // head_dim rounded up to 16; the padding is zero
  int64_t position[kBatchQueries];
  float* out[kBatchQueries];  // the total output, in the caller's memory // [head_dim]
  Softmaxes split;
  Softmaxes total;
  float factor[kBatchQueries];             // by what the page at hand rescales the output
  float bias[kBatchQueries];               // what the minima of a sealed page add
  alignas(64) float q[kBatchFloats];       // [count, dims], scaled
  alignas(64) float folded[kBatchFloats];  // [count, dims], q times the scales of a sealed page
  alignas(64) float output[kBatchFloats];  // [count, dims], of the split
  int first_scored;
  alignas(64) float scores[kMostActive * kPageSlots];  // of query first_scored and those after it
  FloatPlanes planes;

  QUIRE_ALWAYS_INLINE float* scores_of(int query) {
    return scores + (query - first_scored) * kPageSlots;
  }
};

/// Where attention stands: which kv head, which page.
struct PageCursor {
  const AttentionArgs& args;
  int32_t kv_head;
  const PageSpan* pages;
  int64_t num_pages;
  int64_t index;

  const PageSpan& page() const { return pages[index]; }
  const PageSpan& next() const { return pages[index + 1 < num_pages ? index + 1 : index]; }
  const KvGroupShape& shape() const { return args.kv->shape; }
};

static PageCursor first_page(const AttentionArgs& args, int32_t kv_head) {
  return {args, kv_head, args.kv->pages.data(), static_cast<int64_t>(args.kv->pages.size()), 0};
}

/// Neighbouring queries of a batch, at most kMostActive, from the first to the last that see
/// anything of a page, and the slots that any of them sees.
struct ActiveQueries {
  int begin;
  int end;
  SlotRange slots;
  bool whole;  // each of them sees all slots
};

/// Slots of `page` that a query at `position` sees: those of its window, and sinks before them.
QUIRE_ALWAYS_INLINE VisibleSlots visible_slots(const PageSpan& page, const PagedKvView& kv,
                                               int64_t position) {
  const int64_t last = position - page.logical_base;  // causality: the query's own slot
  const int end = static_cast<int>(last + 1 < page.end ? last + 1 : page.end);
  if (kv.window == 0) return {{page.begin, end}, {0, 0}};
  const int64_t first = last - kv.window + 1;
  const int64_t sinks_end = int64_t{kv.sinks} - page.logical_base;
  return joined({page.begin, static_cast<int>(sinks_end < end ? sinks_end : end)},
                {static_cast<int>(first > page.begin ? first : page.begin), end});
}

/// Whether queries [begin, end) see all slots: positions ascend.
static bool all_see_whole(const PageSpan& page, const PagedKvView& kv, const QueryBatch& batch,
                          int begin, int end) {
  const int64_t last_slot = int64_t{page.logical_base} + kPageSlots - 1;
  return page.begin == 0 && page.end == kPageSlots && batch.position[begin] >= last_slot &&
         (kv.window == 0 || batch.position[end - 1] - kv.window < page.logical_base);
}

/// Of queries [begin, end).
static ActiveQueries active_queries(const PageSpan& page, const PagedKvView& kv,
                                    const QueryBatch& batch, int begin, int end) {
  if (all_see_whole(page, kv, batch, begin, end)) return {begin, end, {0, kPageSlots}, true};
  ActiveQueries active{end, begin, {kPageSlots, 0}, false};
  for (int i = begin; i < end; ++i) {
    const SlotRange slots = hull(visible_slots(page, kv, batch.position[i]));
    if (slots.begin >= slots.end) continue;
    if (i < active.begin) active.begin = i;
    active.end = i + 1;
    if (slots.begin < active.slots.begin) active.slots.begin = slots.begin;
    if (slots.end > active.slots.end) active.slots.end = slots.end;
  }
  return active;
}

/// [rows, stride] to floats [rows, 64] for columns [0, columns), padded with zeros to 16. Exact.
template <class E>
static void convert(const typename E::Stored* from, int64_t stride, int64_t rows, int64_t columns,
                    float* to) {
  for (int64_t r = 0; r < rows; ++r, from += stride, to += kChunk) {
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) store(to + c, E::load16(from + E::stored(c)));
    if constexpr (E::kBits >= 16) {  // codes fill their vectors
      if (c < columns) {
        typename E::Stored tail[16] = {};
        std::memcpy(tail, from + c, sizeof(tail[0]) * static_cast<size_t>(columns - c));
        store(to + c, E::load16(tail));
      }
    }
  }
}

/// K or V of one layer and head in one page, and the same plane of the page that will be read next.
template <class E>
struct Plane {
  const typename E::Stored* here;
  const typename E::Stored* ahead;
};

template <class E>
static Plane<E> plane_at(const std::byte* page, const std::byte* next, int64_t offset) {
  // What is ahead is only prefetched; a page that lacks this form has nothing to fetch.
  return {reinterpret_cast<const typename E::Stored*>(page + offset),
          reinterpret_cast<const typename E::Stored*>((next != nullptr ? next : page) + offset)};
}

/// Where a chunk of a plane stands, or is to stand, as floats.
struct FloatChunk {
  float* values;
  bool is_filled;
};

static FloatChunk float_chunk(const void* source, FloatPlanes& planes) {
  for (int i = 0; i < planes.used; ++i) {
    if (planes.source[i] == source) return {planes.values[i], true};
  }
  if (planes.used == FloatPlanes::kMost) return {planes.spare, false};
  planes.source[planes.used] = source;
  return {planes.values[planes.used++], false};
}

/// scores[i][slot] = start + q[i] . K[:, slot] for the active queries and, in whole vectors, the
/// slots up to the last that any of them sees.
template <class E>
static void score_plane(const Plane<E>& keys, int32_t head_dim, const float* q, Start start,
                        ActiveQueries active, QueryBatch& batch) {
  const int rows = active.end - active.begin;
  const int64_t stride = E::stored(kPageSlots);
  const int64_t columns = (active.slots.end + 15) / 16 * 16;
  const float* bias = batch.bias + active.begin;
  q += active.begin * batch.dims;
  float* scores = batch.scores_of(active.begin);
  if (E::kBits == 32 || batch.count < kConvertQueries) {
    multiply<E>({.x = q,
                 .x_stride = batch.dims,
                 .m = keys.here,
                 .ahead = keys.ahead,
                 .m_stride = stride,
                 .k_count = head_dim,
                 .columns = columns,
                 .acc = scores,
                 .acc_stride = kPageSlots,
                 .start = start,
                 .bias = bias},
                rows);
    return;
  }
  for (int32_t d = 0; d < head_dim; d += kChunk) {
    const int32_t n = head_dim - d < kChunk ? head_dim - d : kChunk;
    const typename E::Stored* from = keys.here + d * stride;
    const FloatChunk chunk = float_chunk(from, batch.planes);
    if (!chunk.is_filled) convert<E>(from, stride, n, kPageSlots, chunk.values);
    multiply<FloatElement>({.x = q + d,
                            .x_stride = batch.dims,
                            .m = chunk.values,
                            .ahead = chunk.values,
                            .m_stride = kPageSlots,
                            .k_count = n,
                            .columns = columns,
                            .acc = scores,
                            .acc_stride = kPageSlots,
                            .start = d == 0 ? start : Start::kKeep,
                            .bias = bias},
                           rows);
  }
}

/// output[i] = factor[i] output[i] (+ bias[i]) + weights[i] . V for the active queries, over the
/// slots that any of them sees: what lies in other slots is never multiplied. // filled: those of
/// the page
template <class E>
static void weigh_plane(const Plane<E>& values, int32_t head_dim, int64_t stride, Start start,
                        SlotRange filled, ActiveQueries active, QueryBatch& batch) {
  const int rows = active.end - active.begin;
  const int64_t first_value = active.slots.begin * stride;
  const int64_t slots = active.slots.end - active.slots.begin;
  const float* weights = batch.scores_of(active.begin) + active.slots.begin;
  float* output = batch.output + active.begin * batch.dims;
  const float* factor = batch.factor + active.begin;
  const float* bias = batch.bias + active.begin;
  const bool whole_vectors = E::kBits < 16 || head_dim % 16 == 0;
  if ((E::kBits == 32 || batch.count < kConvertQueries) && whole_vectors) {
    multiply<E>({.x = weights,
                 .x_stride = kPageSlots,
                 .m = values.here + first_value,
                 .ahead = values.ahead + first_value,
                 .m_stride = stride,
                 .k_count = slots,
                 .columns = batch.dims,
                 .acc = output,
                 .acc_stride = batch.dims,
                 .start = start,
                 .scale = factor,
                 .bias = bias},
                rows);
    return;
  }
  const int64_t columns = E::kBits < 16 ? batch.dims : head_dim;
  for (int64_t d = 0; d < columns; d += kChunk) {
    const int64_t n = columns - d < kChunk ? columns - d : kChunk;
    const typename E::Stored* from = values.here + E::stored(d);
    const FloatChunk chunk = float_chunk(from, batch.planes);
    if (!chunk.is_filled) {
      convert<E>(from + filled.begin * stride, stride, filled.end - filled.begin, n,
                 chunk.values + filled.begin * kChunk);
    }
    const float* seen = chunk.values + active.slots.begin * kChunk;
    multiply<FloatElement>({.x = weights,
                            .x_stride = kPageSlots,
                            .m = seen,
                            .ahead = seen,
                            .m_stride = kChunk,
                            .k_count = slots,
                            .columns = (n + 15) / 16 * 16,
                            .acc = output + d,
                            .acc_stride = batch.dims,
                            .start = start,
                            .scale = factor,
                            .bias = bias},
                           rows);
  }
}

QUIRE_ALWAYS_INLINE SlotRange filled_slots(const PageSpan& page) {
  return {page.begin, page.end};
}

/// Scores against rows kept as numbers.
template <class E>
static void score_rows(const PageCursor& at, const std::byte* page, const std::byte* next,
                       int64_t offset, ActiveQueries active, QueryBatch& batch) {
  // Keys are rotated for the page's stored_base, and so is the query: both equal logical_base.
  score_plane(plane_at<E>(page, next, offset), at.shape().head_dim, batch.q, Start::kZero, active,
              batch);
}

template <class E>
static void weigh_rows(const PageCursor& at, const std::byte* page, const std::byte* next,
                       int64_t offset, ActiveQueries active, QueryBatch& batch) {
  const int32_t head_dim = at.shape().head_dim;
  weigh_plane(plane_at<E>(page, next, offset), head_dim, head_dim, Start::kScaled,
              filled_slots(at.page()), active, batch);
}

/// folded = q scale, bias = q . minimum. // scales: [dims], then minima [dims]
static void fold_queries(const uint16_t* scales, ActiveQueries active, QueryBatch& batch) {
  const uint16_t* minima = scales + batch.dims;
  for (int i = active.begin; i < active.end; ++i) {
    const float* q = batch.q + i * batch.dims;
    float* folded = batch.folded + i * batch.dims;
    F32x16 total = zero();
    for (int64_t d = 0; d < batch.dims; d += 16) {
      const F32x16 q_d = load(q + d);
      store(folded + d, q_d * load_half(scales + d));
      total = fma(q_d, load_half(minima + d), total);
    }
    batch.bias[i] = sum(total);
  }
}

/// weights = weights scale, bias = weights . minimum. // scales: [64], then minima [64]
static void fold_weights(const uint16_t* scales, ActiveQueries active, QueryBatch& batch) {
  const uint16_t* minima = scales + kPageSlots;
  for (int i = active.begin; i < active.end; ++i) {
    float* weights = batch.scores_of(i);
    F32x16 total = zero();
    for (int s = 0; s < kPageSlots; s += 16) {
      const F32x16 w = load(weights + s);
      total = fma(w, load_half(minima + s), total);
      store(weights + s, w * load_half(scales + s));
    }
    batch.bias[i] = sum(total);
  }
}

template <int B>
static void score_codes(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  const KvGroupShape& shape = at.shape();
  const int64_t offset = shape.sealed_key_offset(at.args.layer, at.kv_head);
  const std::byte* scales = at.page().sealed + offset + shape.sealed_key_scales();
  fold_queries(reinterpret_cast<const uint16_t*>(scales), active, batch);
  score_plane(plane_at<CodeElement<B>>(at.page().sealed, at.next().sealed, offset), shape.head_dim,
              batch.folded, Start::kBias, active, batch);
}

template <int B>
static void weigh_codes(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  const KvGroupShape& shape = at.shape();
  const int64_t offset = shape.sealed_value_offset(at.args.layer, at.kv_head);
  const std::byte* scales = at.page().sealed + offset + shape.sealed_value_scales();
  fold_weights(reinterpret_cast<const uint16_t*>(scales), active, batch);
  weigh_plane(plane_at<CodeElement<B>>(at.page().sealed, at.next().sealed, offset), shape.head_dim,
              CodeElement<B>::stored(batch.dims), Start::kScaledBias, filled_slots(at.page()),
              active, batch);
}

static void score_numbers(const PageCursor& at, const std::byte* page, const std::byte* next,
                          int64_t offset, ActiveQueries active, QueryBatch& batch) {
  switch (at.shape().key) {
    case KvElement::F32:
      return score_rows<FloatElement>(at, page, next, offset, active, batch);
    case KvElement::F16:
      return score_rows<HalfElement>(at, page, next, offset, active, batch);
    case KvElement::BF16:
      return score_rows<BfloatElement>(at, page, next, offset, active, batch);
  }
}

static void weigh_numbers(const PageCursor& at, const std::byte* page, const std::byte* next,
                          int64_t offset, ActiveQueries active, QueryBatch& batch) {
  switch (at.shape().value) {
    case KvElement::F32:
      return weigh_rows<FloatElement>(at, page, next, offset, active, batch);
    case KvElement::F16:
      return weigh_rows<HalfElement>(at, page, next, offset, active, batch);
    case KvElement::BF16:
      return weigh_rows<BfloatElement>(at, page, next, offset, active, batch);
  }
}

static void score_open(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  score_numbers(at, at.page().page, at.next().page,
                at.shape().key_offset(at.args.layer, at.kv_head), active, batch);
}

static void weigh_open(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  weigh_numbers(at, at.page().page, at.next().page,
                at.shape().value_offset(at.args.layer, at.kv_head), active, batch);
}

static void score_sealed(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  switch (at.shape().key_code) {
    case KvCode::kNone:
      return score_numbers(at, at.page().sealed, at.next().sealed,
                           at.shape().sealed_key_offset(at.args.layer, at.kv_head), active, batch);
    case KvCode::kQ8:
      return score_codes<8>(at, active, batch);
    case KvCode::kQ6:
      return score_codes<6>(at, active, batch);
    case KvCode::kQ4:
      return score_codes<4>(at, active, batch);
    case KvCode::kQ3:
      return score_codes<3>(at, active, batch);
    case KvCode::kQ2:
      return score_codes<2>(at, active, batch);
  }
}

static void weigh_sealed(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  switch (at.shape().value_code) {
    case KvCode::kNone:
      return weigh_numbers(at, at.page().sealed, at.next().sealed,
                           at.shape().sealed_value_offset(at.args.layer, at.kv_head), active,
                           batch);
    case KvCode::kQ8:
      return weigh_codes<8>(at, active, batch);
    case KvCode::kQ6:
      return weigh_codes<6>(at, active, batch);
    case KvCode::kQ4:
      return weigh_codes<4>(at, active, batch);
    case KvCode::kQ3:
      return weigh_codes<3>(at, active, batch);
    case KvCode::kQ2:
      return weigh_codes<2>(at, active, batch);
  }
}

/// The active queries whose own page this is, and those after it: rows ascend.
struct ReadingForms {
  ActiveQueries open;
  ActiveQueries sealed;
};

/// Which queries read the page in which form: a function of positions only.
static ReadingForms reading_forms(const PageSpan& page, ActiveQueries active,
                                  const QueryBatch& batch) {
  ReadingForms forms{active, active};
  int first_later = active.end;
  if (page.sealed != nullptr) {
    first_later = active.begin;
    while (first_later < active.end &&
           batch.position[first_later] < int64_t{page.logical_base} + kPageSlots) {
      ++first_later;
    }
  }
  forms.open.end = first_later;
  forms.sealed.begin = first_later;
  return forms;
}

static void attend_slice(const PageCursor& at, ActiveQueries active, QueryBatch& batch) {
  const PagedKvView& kv = *at.args.kv;
  batch.first_scored = active.begin;
  float* scores = batch.scores;
  const ReadingForms forms = reading_forms(at.page(), active, batch);
  if (forms.open.begin < forms.open.end) score_open(at, forms.open, batch);
  if (forms.sealed.begin < forms.sealed.end) score_sealed(at, forms.sealed, batch);
  if (at.args.soft_cap > 0.0f) {
    soft_cap(scores, at.args.soft_cap, int64_t{active.end - active.begin} * kPageSlots);
  }
  for (int i = active.begin; i < active.end && !active.whole; ++i) {
    const VisibleSlots visible = visible_slots(at.page(), kv, batch.position[i]);
    if (!is_whole_page(visible)) hide_slots_outside(visible, batch.scores_of(i));
  }
  raise_maxima(scores, active.begin, active.end, batch.split, batch.factor);
  weigh_scores(scores, active.begin, active.end, batch.split);
  if (forms.open.begin < forms.open.end) weigh_open(at, forms.open, batch);
  if (forms.sealed.begin < forms.sealed.end) weigh_sealed(at, forms.sealed, batch);
}

static void attend_page(const PageCursor& at, QueryBatch& batch) {
  batch.planes.used = 0;
  for (int begin = 0; begin < batch.count; begin += kMostActive) {
    const int end = begin + kMostActive < batch.count ? begin + kMostActive : batch.count;
    const ActiveQueries active = active_queries(at.page(), *at.args.kv, batch, begin, end);
    if (active.begin < active.end) attend_slice(at, active, batch);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
