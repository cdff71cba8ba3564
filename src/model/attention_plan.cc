#include "model/attention_plan.h"

#include <algorithm>

#include "kernels/kernel_set.h"

namespace quire::model {
namespace {

// Query heads that share one page's conversion to f32: enough to pay for it, few enough for L1.
constexpr int32_t kQueryHeadsPerTask = 48;
// With this many whole tasks a thread, stealing evens the load and splitting buys nothing.
constexpr int32_t kTasksPerThread = 4;

int32_t rows_per_task(const AttentionShape& shape) {
  return std::max(1, kQueryHeadsPerTask / (shape.num_heads / shape.num_kv_heads));
}

void add_whole(AttentionPlan& plan, int32_t sequence, int32_t num_rows,
               const AttentionShape& shape) {
  const int32_t step = rows_per_task(shape);
  // The last rows see the most keys: they come first, so that no long task is left for the end.
  for (int32_t end = num_rows; end > 0; end -= std::min(end, step)) {
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
      plan.tasks.push_back({.sequence = sequence,
                            .kv_head = head,
                            .row_begin = std::max(0, end - step),
                            .row_end = end});
    }
  }
}

void add_split(AttentionPlan& plan, int32_t sequence, const BatchSequence& part,
               const AttentionShape& shape) {
  for (int32_t row = 0; row < part.num_rows; ++row) {
    const int32_t position = part.first_position + row;
    const int32_t oldest =
        shape.window_tokens > 0 ? std::max(0, position - shape.window_tokens + 1) : 0;
    const int32_t last = position / kernels::kSplitTokens;
    // The splits of the sinks, then those of the window.
    const int32_t sinks =
        (std::min(shape.sink_tokens, oldest) + kernels::kSplitTokens - 1) / kernels::kSplitTokens;
    const int32_t first = std::max(sinks, oldest / kernels::kSplitTokens);
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
      const int32_t count = sinks + last - first + 1;
      plan.merges.push_back({sequence, head, row, count, plan.num_partials});
      for (int32_t i = 0; i < count; ++i) {
        const int32_t split = i < sinks ? i : first + i - sinks;
        plan.tasks.push_back({.sequence = sequence,
                              .kv_head = head,
                              .row_begin = row,
                              .row_end = row + 1,
                              .split = split,
                              .partial = plan.num_partials++});
      }
    }
  }
}

}  // namespace

AttentionPlan plan_attention(std::span<const BatchSequence> sequences,
                             const AttentionShape& shape) {
  int64_t whole_tasks = 0;
  for (const BatchSequence& s : sequences) {
    const int32_t step = rows_per_task(shape);
    whole_tasks += int64_t{(s.num_rows + step - 1) / step} * shape.num_kv_heads;
  }
  const bool enough = shape.num_threads == 1 || whole_tasks >= kTasksPerThread * shape.num_threads;
  AttentionPlan plan;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const BatchSequence& s = sequences[i];
    const bool one_split = s.first_position + s.num_rows <= kernels::kSplitTokens;
    // Splitting walks the pages once for every row: only worth it for a row or two.
    if (enough || one_split || s.num_rows > 2) {
      add_whole(plan, static_cast<int32_t>(i), s.num_rows, shape);
    } else {
      add_split(plan, static_cast<int32_t>(i), s, shape);
    }
  }
  return plan;
}

}  // namespace quire::model
