#include "model/attention_plan.h"

#include <algorithm>

#include "kernels/kernel_set.h"

namespace quire::model {
namespace {

// Query heads that share one page's conversion to f32: enough to pay for it ...
constexpr int32_t kQueryHeadsPerTask = 48;
// ... and up to so many times more, which kernels take at once where heads have 64 dimensions and
// there are rows for all threads.
constexpr int32_t kMostTimesMore = 4;
// With this many tasks of equal length a thread, stealing evens the load and splitting buys
// nothing.
constexpr int32_t kTasksPerThread = 4;
// Partial results of more rows would take more memory than the planner counts for them.
constexpr int32_t kMostSplitRows = 2;

int32_t rows_per_task(const AttentionShape& shape) {
  return std::max(1, kQueryHeadsPerTask / (shape.num_heads / shape.num_kv_heads));
}

int64_t keys_of_last_row(const BatchSequence& part, const AttentionShape& shape) {
  return keys_seen(part.first_position + part.num_rows - 1, shape.window_tokens, shape.sink_tokens);
}

/// Pairs of rows and keys in the longest whole task of a sequence, its last block of rows.
int64_t longest_task(const BatchSequence& part, const AttentionShape& shape) {
  const int32_t rows = std::min(part.num_rows, rows_per_task(shape));
  return rows * keys_of_last_row(part, shape);
}

/// The same of all its rows and kv heads, and somewhat more.
int64_t all_tasks(const BatchSequence& part, const AttentionShape& shape) {
  return shape.num_kv_heads * part.num_rows * keys_of_last_row(part, shape);
}

/// Rows of a task that reads all its splits.
int32_t rows_per_whole_task(const BatchSequence& part, const AttentionShape& shape) {
  const int32_t wanted = kTasksPerThread * shape.num_threads;
  int32_t rows = rows_per_task(shape);
  for (int32_t times = 2; times <= kMostTimesMore; times *= 2) {
    if (part.num_rows / (2 * rows) * shape.num_kv_heads < wanted) break;
    rows *= 2;
  }
  return rows;
}

/// Calls add(row_begin, row_end) for blocks of `step` rows. The last rows see the most keys: they
/// come first, so that no long task is left for the end.
template <class Add>
void for_each_block(const BatchSequence& part, int32_t step, Add add) {
  for (int32_t end = part.num_rows; end > 0; end -= std::min(end, step)) {
    add(std::max(0, end - step), end);
  }
}

void add_whole(AttentionPlan& plan, int32_t sequence, const BatchSequence& part,
               const AttentionShape& shape) {
  for_each_block(part, rows_per_whole_task(part, shape), [&](int32_t begin, int32_t end) {
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
      plan.tasks.push_back(
          {.sequence = sequence, .kv_head = head, .row_begin = begin, .row_end = end});
    }
  });
}

/// The splits of which rows [row_begin, row_end) of a sequence see anything: [0, sinks) and
/// [first, last].
struct SplitsSeen {
  int32_t sinks;
  int32_t first;
  int32_t last;

  int32_t count() const { return sinks + last - first + 1; }
  int32_t at(int32_t i) const { return i < sinks ? i : first + i - sinks; }
};

SplitsSeen splits_seen(const BatchSequence& part, int32_t row_begin, int32_t row_end,
                       const AttentionShape& shape) {
  const int32_t position = part.first_position + row_begin;
  const int32_t oldest =
      shape.window_tokens > 0 ? std::max(0, position - shape.window_tokens + 1) : 0;
  const int32_t sinks =
      (std::min(shape.sink_tokens, oldest) + kernels::kSplitTokens - 1) / kernels::kSplitTokens;
  return {.sinks = sinks,
          .first = std::max(sinks, oldest / kernels::kSplitTokens),
          .last = (part.first_position + row_end - 1) / kernels::kSplitTokens};
}

void add_split(AttentionPlan& plan, int32_t sequence, const BatchSequence& part,
               const AttentionShape& shape) {
  for_each_block(part, rows_per_task(shape), [&](int32_t begin, int32_t end) {
    const SplitsSeen splits = splits_seen(part, begin, end, shape);
    const int32_t rows = end - begin;
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
      for (int32_t row = 0; row < rows; ++row) {
        plan.merges.push_back({.sequence = sequence,
                               .kv_head = head,
                               .row = begin + row,
                               .num_splits = splits.count(),
                               .partial = plan.num_partials + row,
                               .split_stride = rows});
      }
      for (int32_t i = 0; i < splits.count(); ++i) {
        plan.tasks.push_back({.sequence = sequence,
                              .kv_head = head,
                              .row_begin = begin,
                              .row_end = end,
                              .split = splits.at(i),
                              .partial = plan.num_partials});
        plan.num_partials += rows;
      }
    }
  });
}

}  // namespace

int64_t keys_seen(int64_t position, int64_t window, int64_t sinks) {
  return window == 0 ? position + 1 : std::min(position + 1, window + sinks);
}

AttentionPlan plan_attention(std::span<const BatchSequence> sequences,
                             const AttentionShape& shape) {
  int64_t total = 0;
  for (const BatchSequence& part : sequences) total += all_tasks(part, shape);
  // A task that takes longer than this might leave the other threads waiting for its end.
  const int64_t too_long = total / (int64_t{kTasksPerThread} * shape.num_threads);
  AttentionPlan plan;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const BatchSequence& part = sequences[i];
    const bool one_split = part.first_position + part.num_rows <= kernels::kSplitTokens;
    const bool whole = one_split || part.num_rows > kMostSplitRows;
    if (shape.num_threads == 1 || whole || longest_task(part, shape) <= too_long) {
      add_whole(plan, static_cast<int32_t>(i), part, shape);
    } else {
      add_split(plan, static_cast<int32_t>(i), part, shape);
    }
  }
  return plan;
}

}  // namespace quire::model
