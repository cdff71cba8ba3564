#include "model/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

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

TEST(AttentionPlan, SplitsTwoLongRowsTogether) {
  // Beside seven short answers, two rows deep in a window are most of the work.
  std::vector<BatchSequence> parts(8, {{}, 100, 1});
  parts[3] = {{}, 6000, 2};
  const AttentionPlan plan =
      plan_attention(parts, {.num_heads = 9, .num_kv_heads = 3, .num_threads = 2});
  EXPECT_EQ(plan.merges.size(), 3u * 2);
  EXPECT_EQ(plan.num_partials, 3 * 2 * (6001 / kernels::kSplitTokens + 1));
  for (const AttentionMerge& m : plan.merges) EXPECT_EQ(m.sequence, 3);
}

TEST(AttentionPlan, HasNoPartialResultsOfMoreRows) {
  for (const int32_t rows : {3, 88, 512}) {
    const std::vector<BatchSequence> parts = {{{}, 6000, rows}};
    const AttentionPlan plan =
        plan_attention(parts, {.num_heads = 9, .num_kv_heads = 3, .num_threads = 2});
    EXPECT_EQ(plan.num_partials, 0);
    EXPECT_TRUE(plan.merges.empty());
  }
}

TEST(AttentionPlan, GivesATaskMoreRowsWhereThatLeavesEnoughTasksForAllThreads) {
  const auto rows_of_longest = [](int32_t rows, int32_t threads) {
    const std::vector<BatchSequence> parts = {{{}, 6000, rows}};
    int32_t most = 0;
    const AttentionShape shape{.num_heads = 9, .num_kv_heads = 3, .num_threads = threads};
    for (const AttentionTask& task : plan_attention(parts, shape).tasks) {
      most = std::max(most, task.row_end - task.row_begin);
    }
    return most;
  };
  EXPECT_EQ(rows_of_longest(88, 2), 16);
  EXPECT_EQ(rows_of_longest(128, 2), 32);
  EXPECT_EQ(rows_of_longest(512, 2), 64);
  EXPECT_EQ(rows_of_longest(512, 12), 32);
  EXPECT_EQ(rows_of_longest(512, 16), 16);
}

TEST(AttentionPlan, GivesEveryPartialAPlaceOfItsOwnInMergeOrder) {
  const std::vector<BatchSequence> parts = {{{}, 3000, 2}, {{}, 900, 1}, {{}, 767, 2}};
  const AttentionShape shape{.num_heads = 4,
                             .num_kv_heads = 1,
                             .window_tokens = 600,
                             .sink_tokens = 300,
                             .num_threads = 16};
  const AttentionPlan plan = plan_attention(parts, shape);
  std::map<int64_t, std::pair<const AttentionTask*, int32_t>> by_partial;  // and its row
  for (const AttentionTask& t : plan.tasks) {
    ASSERT_GE(t.split, 0);
    for (int32_t row = t.row_begin; row < t.row_end; ++row) {
      const auto place = t.partial + row - t.row_begin;
      ASSERT_LT(place, plan.num_partials);
      ASSERT_TRUE(by_partial.emplace(place, std::pair{&t, row}).second);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(by_partial.size()), plan.num_partials);
  EXPECT_EQ(plan.merges.size(), 2u + 1 + 2);
  for (const AttentionMerge& m : plan.merges) {
    std::vector<int32_t> splits;
    for (int32_t i = 0; i < m.num_splits; ++i) {
      const auto& [task, row] = by_partial.at(m.partial + i * m.split_stride);
      EXPECT_EQ(row, m.row);
      EXPECT_EQ(task->sequence, m.sequence);
      splits.push_back(task->split);
    }
    EXPECT_TRUE(std::is_sorted(splits.begin(), splits.end()));
    const int32_t position = parts[static_cast<size_t>(m.sequence)].first_position + m.row;
    for (int32_t key = 0; key <= position; ++key) {
      if (position - key >= shape.window_tokens && key >= shape.sink_tokens) continue;
      EXPECT_EQ(std::count(splits.begin(), splits.end(), key / kernels::kSplitTokens), 1) << key;
    }
  }
}

}  // namespace
}  // namespace quire::model
