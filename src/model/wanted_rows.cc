#include "model/wanted_rows.h"

namespace quire::model {

WantedRows wanted_rows(const Batch& batch) {
  WantedRows wanted;
  wanted.rows.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  size_t next = 0;
  int32_t first_row = 0;
  for (const BatchSequence& part : batch.sequences) {
    const int32_t end = first_row + part.num_rows;
    for (int32_t before = -2; next < wanted.rows.size() && wanted.rows[next] < end; ++next) {
      const int32_t row = wanted.rows[next];
      if (row != before + 1) {
        wanted.sequences.push_back({.groups = part.groups,
                                    .first_position = part.first_position + row - first_row,
                                    .num_rows = 0});
      }
      ++wanted.sequences.back().num_rows;
      wanted.tokens.push_back(batch.tokens[static_cast<size_t>(row)]);
      wanted.logit_rows.push_back(static_cast<int32_t>(next));
      before = row;
    }
    first_row = end;
  }
  return wanted;
}

}  // namespace quire::model
