// attention_softmax.inl: online softmaxes of several queries side by side, and their merging.
//
// A running softmax is (max, denominator, output), the latter two relative to e^max. It starts at
// (-FLT_MAX, 0, 0), not at -inf, so that nothing visible yet never means NaN. Slots that a query
// does not see have score -inf: exp makes them exactly 0. Queries share vectors only lane by lane,
// so that none depends on the others. // Milakov and Gimelshein, arXiv:1805.02867
#pragma once
#include <cfloat>
#include <cmath>

#include "kernels/impl/exp.inl"
#include "kernels/impl/lanes.inl"
#include "kernels/paged_kv_view.h"

namespace quire::kernels::QUIRE_ISA {

inline constexpr int kBatchQueries = 192;

struct Softmaxes {
  float max[kBatchQueries];
  float denominator[kBatchQueries];
};

static void start_softmaxes(Softmaxes& state, int count) {
  for (int i = 0; i < count; ++i) {
    state.max[i] = -FLT_MAX;
    state.denominator[i] = 0.0f;
  }
}

/// Slots [begin, end) of a page; none if end <= begin.
struct SlotRange {
  int begin;
  int end;
};

/// What a query sees of a page: two ranges, the second empty unless they are apart.
struct VisibleSlots {
  SlotRange first;
  SlotRange second;
};

/// The union of a range and a later one.
QUIRE_ALWAYS_INLINE VisibleSlots joined(SlotRange a, SlotRange b) {
  if (a.begin >= a.end) return {b, {0, 0}};
  if (b.begin >= b.end) return {a, {0, 0}};
  if (b.begin > a.end) return {a, b};
  return {{a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end}, {0, 0}};
}

QUIRE_ALWAYS_INLINE SlotRange hull(const VisibleSlots& v) {
  return v.second.begin < v.second.end ? SlotRange{v.first.begin, v.second.end} : v.first;
}

QUIRE_ALWAYS_INLINE bool is_whole_page(const VisibleSlots& v) {
  return v.first.begin <= 0 && v.first.end >= kPageSlots;
}

/// Makes the scores of all other slots of a page -inf.
static void hide_slots_outside(const VisibleSlots& visible, float* scores) {
  for (int i = 0; i < kPageSlots; i += 16) {
    const Mask16 first = lanes_between(visible.first.begin - i, visible.first.end - i);
    const Mask16 second = lanes_between(visible.second.begin - i, visible.second.end - i);
    const F32x16 score = load(scores + i);
    const F32x16 hidden = broadcast(-INFINITY);
    store(scores + i, select(first, score, select(second, score, hidden)));
  }
}

/// Raises max to the largest score of queries [begin, end), and makes their denominators relative
/// to it. `factor` becomes what their outputs are to be multiplied with. // scores: [end - begin,
/// 64]
static void raise_maxima(const float* scores, int begin, int end, Softmaxes& state, float* factor) {
  for (int i = begin; i < end; ++i) {
    const float* s = scores + (i - begin) * kPageSlots;
    const F32x16 largest = max(max(load(s), load(s + 16)), max(load(s + 32), load(s + 48)));
    const float page_max = max_lane(largest);
    factor[i] = page_max > state.max[i] ? page_max : state.max[i];  // the new maximum, for now
  }
  for (int i = begin; i < end; i += 16) {
    const int n = lanes_left(i, end);
    const F32x16 new_max = load_first(factor + i, n);
    const F32x16 f = exp(load_first(state.max + i, n) - new_max);
    store_first(state.max + i, new_max, n);
    store_first(state.denominator + i, load_first(state.denominator + i, n) * f, n);
    store_first(factor + i, f, n);
  }
}

/// Turns scores into weights e^(score - max) and adds them to the denominators. // scores: [end -
/// begin, 64]
static void weigh_scores(float* scores, int begin, int end, Softmaxes& state) {
  for (int i = begin; i < end; ++i) {
    float* s = scores + (i - begin) * kPageSlots;
    const F32x16 largest = broadcast(state.max[i]);
    F32x16 p[4];
    for (int v = 0; v < 4; ++v) {
      p[v] = exp_of_nonpositive(load(s + 16 * v) - largest);
      store(s + 16 * v, p[v]);
    }
    state.denominator[i] += sum((p[0] + p[1]) + (p[2] + p[3]));
  }
}

/// By what the outputs of a merge's two sides are multiplied.
struct MergeFactors {
  float total[kBatchQueries];
  float split[kBatchQueries];
};

/// Adds the softmaxes of a split to the totals of the splits before it.
static void merge_softmaxes(const Softmaxes& split, int count, Softmaxes& total,
                            MergeFactors& factors) {
  for (int i = 0; i < count; i += 16) {
    const int n = lanes_left(i, count);
    const F32x16 split_max = load_first(split.max + i, n);
    const F32x16 total_max = load_first(total.max + i, n);
    const F32x16 new_max = max(split_max, total_max);
    const F32x16 of_total = exp(total_max - new_max);
    const F32x16 of_split = exp(split_max - new_max);
    const F32x16 added = load_first(split.denominator + i, n) * of_split;
    store_first(total.max + i, new_max, n);
    store_first(total.denominator + i, fma(load_first(total.denominator + i, n), of_total, added),
                n);
    store_first(factors.total + i, of_total, n);
    store_first(factors.split + i, of_split, n);
  }
}

/// The same for the output of query `i`. // both [head_dim]
static void merge_output(const MergeFactors& factors, int i, const float* split, float* total,
                         int32_t head_dim) {
  const F32x16 of_total = broadcast(factors.total[i]);
  const F32x16 of_split = broadcast(factors.split[i]);
  for (int32_t d = 0; d < head_dim; d += 16) {
    const int n = lanes_left(d, head_dim);
    const F32x16 added = load_first(split + d, n) * of_split;
    store_first(total + d, fma(load_first(total + d, n), of_total, added), n);
  }
}

/// output / denominator. Adding zero makes every -0 a +0: whether an underflow met an invisible
/// slot, which adds a zero of either sign, must not show.
static void finish_output(float denominator, float* output, int32_t head_dim) {
  for (int32_t d = 0; d < head_dim; d += 16) {
    const int n = lanes_left(d, head_dim);
    store_first(output + d, load_first(output + d, n) / broadcast(denominator) + zero(), n);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
