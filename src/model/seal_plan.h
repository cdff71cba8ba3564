// seal_plan.h: which pages a batch fills, so that they are to be sealed.
//
// A page is sealed by the batch that writes its last slot, in every layer between the writing of
// keys and values and the attention over them. Pure function.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/batch.h"

namespace quire::model {

struct PageSeal {
  int32_t sequence = 0;  // of the batch
  int32_t page = 0;      // index in its view of the group
};

/// The pages with a sealed form whose last slot is among the rows of the batch.
std::vector<PageSeal> plan_seals(std::span<const BatchSequence> sequences, size_t group);

}  // namespace quire::model
