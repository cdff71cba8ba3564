#include "model/seal_plan.h"

namespace quire::model {

std::vector<PageSeal> plan_seals(std::span<const BatchSequence> sequences, size_t group) {
  std::vector<PageSeal> seals;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const BatchSequence& part = sequences[s];
    const int32_t end = part.first_position + part.num_rows;
    const auto pages = part.groups[group].pages;
    // Only the last pages can reach beyond first_position.
    for (size_t i = pages.size(); i-- > 0;) {
      const int32_t page_end = pages[i].logical_base + kernels::kPageSlots;
      if (page_end <= part.first_position) break;
      if (pages[i].sealed == nullptr || page_end > end) continue;
      seals.push_back({static_cast<int32_t>(s), static_cast<int32_t>(i)});
    }
  }
  return seals;
}

}  // namespace quire::model
