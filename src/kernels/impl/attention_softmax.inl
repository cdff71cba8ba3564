// attention_softmax.inl: the online softmax of one page, and the merging of partial softmaxes.
//
// A running softmax is (max, denominator, output), the latter two relative to e^max. It starts at
// (-FLT_MAX, 0, 0), not at -inf, so that nothing visible yet never means NaN.
// // Milakov and Gimelshein, arXiv:1805.02867
#pragma once
#include <cfloat>

#include "kernels/impl/exp.inl"
#include "kernels/paged_kv_view.h"

namespace quire::kernels::QUIRE_ISA {

struct Softmax {
  float max;
  float denominator;
};

/// Slots [begin, end) of a page; none if end <= begin.
struct SlotRange {
  int begin;
  int end;
};

QUIRE_ALWAYS_INLINE float exp_of(float x) {
  float lanes[16];
  store(lanes, exp(broadcast(x)));
  return lanes[0];
}

/// Turns the scores of a page into weights: p = e^(score - new max), exactly 0 where not visible.
/// Rescales the denominator and `output` [dims, a multiple of 16] to the new max, and adds to the
/// denominator.
static void softmax_page(float* scores, SlotRange visible, Softmax& state, float* output,
                         int64_t dims) {
  const F32x16 lowest = broadcast(-FLT_MAX);
  F32x16 p[4];
  Mask16 seen[4];
  for (int i = 0; i < 4; ++i) {
    seen[i] = lanes_between(visible.begin - 16 * i, visible.end - 16 * i);
    p[i] = select(seen[i], load(scores + 16 * i), lowest);
  }
  const float page_max = max_lane(max(max(p[0], p[1]), max(p[2], p[3])));
  const float new_max = page_max > state.max ? page_max : state.max;
  for (int i = 0; i < 4; ++i) {
    p[i] = select(seen[i], exp(p[i] - broadcast(new_max)), zero());
    store(scores + 16 * i, p[i]);
  }
  if (new_max != state.max) {  // else the factor is exactly 1
    const float factor = exp_of(state.max - new_max);
    state.denominator *= factor;
    for (int64_t d = 0; d < dims; d += 16) store(output + d, load(output + d) * broadcast(factor));
    state.max = new_max;
  }
  state.denominator += sum((p[0] + p[1]) + (p[2] + p[3]));
}

/// Adds a split's softmax to the total of the splits before it.
static void merge_softmax(Softmax split, const float* split_output, Softmax& total,
                          float* total_output, int32_t head_dim) {
  const float new_max = split.max > total.max ? split.max : total.max;
  const float old_factor = exp_of(total.max - new_max);
  const float new_factor = exp_of(split.max - new_max);
  total.max = new_max;
  total.denominator = total.denominator * old_factor + split.denominator * new_factor;
  for (int32_t d = 0; d < head_dim; d += 16) {
    const int n = head_dim - d < 16 ? head_dim - d : 16;
    const F32x16 added = load_first(split_output + d, n) * broadcast(new_factor);
    store_first(total_output + d,
                fma(load_first(total_output + d, n), broadcast(old_factor), added), n);
  }
}

/// output / denominator. Adding zero makes every -0 a +0: whether an underflow met an invisible
/// slot, which adds a zero of either sign, must not show.
static void finish_softmax(Softmax total, float* output, int32_t head_dim) {
  for (int32_t d = 0; d < head_dim; d += 16) {
    const int n = head_dim - d < 16 ? head_dim - d : 16;
    store_first(output + d, load_first(output + d, n) / broadcast(total.denominator) + zero(), n);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
