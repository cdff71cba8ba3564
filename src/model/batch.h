// batch.h: the rows of one forward pass: consecutive tokens of one or more sequences.
//
// A row's results depend on its own sequence up to it and on nothing else in the batch (law 1).
// Plain views; the caller keeps what they point at alive during the pass.
#pragma once
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "kernels/layer_stream.h"
#include "kernels/paged_kv_view.h"

namespace quire::model {

/// One sequence's part: its rows stand side by side in the batch.
struct BatchSequence {
  std::span<const kernels::PagedKvView>
      groups;  // one a layer group; slots of these rows are writable, and the sealed
               // forms of the pages that they fill
  int32_t first_position = 0;  // of its first row
  int32_t num_rows = 0;
};

struct Batch {
  std::span<const TokenId> tokens;  // [num_rows], sequence after sequence
  std::span<const BatchSequence> sequences;
  std::span<const int32_t> logit_rows;  // rows whose logits are wanted, ascending
  kernels::LayerStream* stream =
      nullptr;  // where some keys and values are not in memory: attention
                // takes its views from here; null: from `sequences`

  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }
};

}  // namespace quire::model
