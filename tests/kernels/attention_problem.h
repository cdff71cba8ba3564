// attention_problem.h: queries over a paged sequence, attention's answers, and its definition.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"

namespace quire::kernels {

/// Queries for every position of a sequence, and where attention writes.
struct AttentionProblem {
  AttentionProblem(const PagedSequence& sequence_, int32_t num_heads_, uint32_t seed)
      : sequence(sequence_), num_heads(num_heads_) {
    stride = int64_t{num_heads} * sequence.view().shape.head_dim;
    q = random_floats(sequence.num_tokens() * stride, seed);
  }

  int32_t head_dim() const { return sequence.view().shape.head_dim; }
  int32_t group() const { return num_heads / sequence.view().shape.num_kv_heads; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim())); }

  /// Row r is position first_position + r.
  AttentionArgs args(int32_t first_position, std::vector<float>& out) const {
    return {.kv = &sequence.view(),
            .layer = 0,
            .first_position = first_position,
            .num_heads = num_heads,
            .scale = scale(),
            .q = q.data() + first_position * stride,
            .q_stride = stride,
            .out = out.data(),
            .out_stride = stride,
            .soft_cap = soft_cap};
  }

  std::vector<float> run(const KernelSet& set, int32_t first_position, int64_t rows) const {
    std::vector<float> out(static_cast<size_t>(rows * stride), 7.0f);
    const AttentionArgs attention = args(first_position, out);
    for (int32_t h = 0; h < sequence.view().shape.num_kv_heads; ++h) {
      set.attention(attention, h, 0, rows);
    }
    return out;
  }

  /// One position from its splits, as decode on several threads does.
  std::vector<float> run_by_splits(const KernelSet& set, int32_t position,
                                   int32_t first_split) const {
    std::vector<float> out(static_cast<size_t>(stride), 7.0f);
    const AttentionArgs attention = args(position, out);
    const int32_t num_splits = position / kSplitTokens + 1 - first_split;
    const int64_t partial_floats = group() * attention_partial_floats(head_dim());
    for (int32_t h = 0; h < sequence.view().shape.num_kv_heads; ++h) {
      std::vector<float> partials(static_cast<size_t>(num_splits * partial_floats), 7.0f);
      for (int32_t s = num_splits - 1; s >= 0; --s) {
        set.attention_split(attention, h, 0, 1, first_split + s,
                            partials.data() + s * partial_floats);
      }
      set.attention_merge(attention, h, 0, num_splits, partials.data(), partial_floats);
    }
    return out;
  }

  bool sees(int32_t position, int32_t key) const {
    const PagedKvView& kv = sequence.view();
    return kv.window == 0 || position - key < kv.window || key < kv.sinks;
  }

  /// The definition, in double precision, for one position.
  std::vector<double> exact(int32_t position) const {
    std::vector<double> out(static_cast<size_t>(stride));
    std::vector<int32_t> seen;
    for (int32_t j = 0; j <= position; ++j) {
      if (sees(position, j)) seen.push_back(j);
    }
    for (int32_t head = 0; head < num_heads; ++head) {
      const float* query = q.data() + position * stride + head * head_dim();
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (const int32_t j : seen) {
        double score = 0;
        for (int32_t d = 0; d < head_dim(); ++d) {
          score += double{query[d]} * scale() * sequence.key_for(position, head / group(), j, d);
        }
        if (soft_cap > 0) score = soft_cap * std::tanh(score / soft_cap);
        weights.push_back(score);
        largest = std::max(largest, score);
      }
      double denominator = 0;
      for (double& weight : weights) denominator += weight = std::exp(weight - largest);
      for (int32_t d = 0; d < head_dim(); ++d) {
        double sum = 0;
        for (size_t i = 0; i < seen.size(); ++i) {
          sum += weights[i] * sequence.value_for(position, head / group(), seen[i], d);
        }
        out[static_cast<size_t>(head * head_dim() + d)] = sum / denominator;
      }
    }
    return out;
  }

  const PagedSequence& sequence;
  int32_t num_heads;
  int64_t stride;
  float soft_cap = 0.0f;
  std::vector<float> q;
};

inline std::span<const float> row_of(const AttentionProblem& problem, const std::vector<float>& out,
                                     int64_t row) {
  return {out.data() + row * problem.stride, static_cast<size_t>(problem.stride)};
}

inline void expect_exact(const AttentionProblem& problem, int32_t position,
                         std::span<const float> row) {
  const std::vector<double> exact = problem.exact(position);
  for (size_t i = 0; i < exact.size(); ++i) {
    // Values are about 1; a weighted mean of them may cancel to less.
    ASSERT_NEAR(row[i], exact[i], 1e-5 * (1.0 + std::abs(exact[i])))
        << "position " << position << ", number " << i;
  }
}

}  // namespace quire::kernels
