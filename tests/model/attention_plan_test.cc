#include "model/attention_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "kernels/kernel_set.h"

namespace quire::model {
namespace {

using Cell = std::tuple<int32_t, int32_t, int32_t>;  // sequence, kv head, row

/// How often each row of each kv head is computed: by a whole task, or by one merge.
std::map<Cell, int> coverage(const AttentionPlan& plan) {
  std::map<Cell, int> count;
  for (const AttentionTask& t : plan.tasks) {
    if (t.split >= 0) continue;
    for (int32_t row = t.row_begin; row < t.row_end; ++row) ++count[{t.sequence, t.kv_head, row}];
  }
  for (const AttentionMerge& m : plan.merges) ++count[{m.sequence, m.kv_head, m.row}];
  return count;
}

TEST(AttentionPlan, CoversEveryRowOfEveryHeadOnce) {
  for (const int32_t threads : {1, 2, 8}) {
    for (const int32_t window : {0, 100, 5000}) {
      const std::vector<BatchSequence> parts = {
          {{}, 0, 1}, {{}, 7000, 1}, {{}, 300, 2}, {{}, 90, 77}};
      const AttentionPlan plan = plan_attention(
          parts,
          {.num_heads = 6, .num_kv_heads = 2, .window_tokens = window, .num_threads = threads});
      const auto count = coverage(plan);
      EXPECT_EQ(count.size(), 2u * (1 + 1 + 2 + 77));
      for (const auto& [cell, times] : count) EXPECT_EQ(times, 1);
    }
  }
}

TEST(AttentionPlan, SplitsALongRowWhenThreadsWouldIdle) {
  const std::vector<BatchSequence> parts = {{{}, 2000, 1}};
  const AttentionShape shape{
      .num_heads = 9, .num_kv_heads = 3, .window_tokens = 0, .num_threads = 2};
  const AttentionPlan plan = plan_attention(parts, shape);
  EXPECT_EQ(plan.merges.size(), 3u);
  EXPECT_EQ(plan.merges[0].num_splits, 2000 / kernels::kSplitTokens + 1);
  EXPECT_EQ(plan.num_partials, 3 * plan.merges[0].num_splits);
}

TEST(AttentionPlan, GivesEveryPartialAPlaceOfItsOwnInMergeOrder) {
  const std::vector<BatchSequence> parts = {{{}, 3000, 2}, {{}, 900, 1}};
  const AttentionPlan plan = plan_attention(
      parts, {.num_heads = 4, .num_kv_heads = 1, .window_tokens = 600, .num_threads = 4});
  std::map<int64_t, const AttentionTask*> by_partial;
  for (const AttentionTask& t : plan.tasks) {
    ASSERT_GE(t.split, 0);
    ASSERT_TRUE(by_partial.emplace(t.partial, &t).second);
  }
  for (const AttentionMerge& m : plan.merges) {
    const int32_t position = parts[static_cast<size_t>(m.sequence)].first_position + m.row;
    const int32_t first = std::max(0, position - 599) / kernels::kSplitTokens;
    for (int32_t i = 0; i < m.num_splits; ++i) {
      const AttentionTask& t = *by_partial.at(m.partial + i);
      EXPECT_EQ(t.split, first + i);
      EXPECT_EQ(t.row_begin, m.row);
      EXPECT_EQ(t.sequence, m.sequence);
    }
    EXPECT_EQ(first + m.num_splits - 1, position / kernels::kSplitTokens);
  }
}

}  // namespace
}  // namespace quire::model
