// wanted_rows.h: the rows of a batch whose logits are wanted, as a batch of their own.
//
// Of the last layer other rows leave nothing but their keys and values. Pure function; the result
// refers to the sequences' views of the batch it was made from.
#pragma once
#include <cstdint>
#include <vector>

#include "model/batch.h"

namespace quire::model {

struct WantedRows {
  std::vector<int32_t> rows;             // of the whole batch, ascending
  std::vector<TokenId> tokens;           // [rows]
  std::vector<BatchSequence> sequences;  // neighbouring rows of a sequence side by side
  std::vector<int32_t> logit_rows;       // all of them

  /// A view of this object. Without a stream.
  Batch batch() const {
    return {.tokens = tokens, .sequences = sequences, .logit_rows = logit_rows};
  }
};

WantedRows wanted_rows(const Batch& batch);

}  // namespace quire::model
