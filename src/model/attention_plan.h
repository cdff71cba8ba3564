// attention_plan.h: how the attention of one layer is divided among threads.
//
// Either whole rows (all splits of a kv head, a block of rows) or, when one or two long rows would
// leave threads idle, single splits of them that are merged afterwards. The kernels give the same
// bits both ways, so the choice may depend on the number of threads. Pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/batch.h"

namespace quire::model {

/// Rows [row_begin, row_end) of one sequence and one kv head; all their splits, or just one.
struct AttentionTask {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int32_t row_begin = 0;  // within the sequence's rows
  int32_t row_end = 0;
  int32_t split = -1;   // -1: all of them, written to the output
  int64_t partial = 0;  // index of its first row's partial result, in units of one kv head's group
};

/// Partial results to merge: `num_splits` of one row and kv head, the first at index `partial`, the
/// others `split_stride` indices apart.
struct AttentionMerge {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int32_t row = 0;
  int32_t num_splits = 0;
  int64_t partial = 0;
  int64_t split_stride = 1;
};

struct AttentionPlan {
  std::vector<AttentionTask> tasks;
  std::vector<AttentionMerge> merges;
  int64_t num_partials = 0;
};

struct AttentionShape {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t window_tokens = 0;  // 0: global
  int32_t sink_tokens = 0;    // with a window: the first tokens, which stay visible
  int32_t num_threads = 1;
};

/// Keys that a row at `position` sees, itself included; `window`: 0 for all of them.
int64_t keys_seen(int64_t position, int64_t window, int64_t sinks);

AttentionPlan plan_attention(std::span<const BatchSequence> sequences, const AttentionShape& shape);

}  // namespace quire::model
