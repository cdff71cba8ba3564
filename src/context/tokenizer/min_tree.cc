#include "context/tokenizer/min_tree.h"

#include <algorithm>

#include "base/check.h"

namespace quire::context {

uint32_t MinTree::smallest_of(const std::vector<uint32_t>& below, size_t group) const {
  const uint32_t* numbers = below.data() + group * kFanout;
  uint32_t smallest = kNone;
  for (size_t i = 0; i < kFanout; ++i) smallest = std::min(smallest, numbers[i]);
  return smallest;
}

void MinTree::assign(std::vector<uint32_t>& numbers) {
  QUIRE_CHECK(!numbers.empty(), "a tree of no numbers");
  levels_.resize(1);
  levels_[0].swap(numbers);
  while (levels_.size() == 1 || levels_.back().size() > kFanout) {
    std::vector<uint32_t>& below = levels_.back();
    const size_t groups = (below.size() + kFanout - 1) / kFanout;
    below.resize(groups * kFanout, kNone);
    std::vector<uint32_t> above(groups);
    for (size_t i = 0; i < groups; ++i) above[i] = smallest_of(below, i);
    levels_.push_back(std::move(above));
  }
  if (levels_.back().size() == 1) return;
  levels_.back().resize(kFanout, kNone);
  levels_.push_back({smallest_of(levels_.back(), 0)});
}

void MinTree::set(size_t i, uint32_t number) {
  levels_[0][i] = number;
  for (size_t level = 1; level < levels_.size(); ++level) {
    i /= kFanout;
    const uint32_t smallest = smallest_of(levels_[level - 1], i);
    if (levels_[level][i] == smallest) return;
    levels_[level][i] = smallest;
  }
}

size_t MinTree::where() const {
  const uint32_t smallest = levels_.back()[0];
  size_t at = 0;
  for (size_t level = levels_.size() - 1; level-- > 0;) {
    at *= kFanout;
    while (levels_[level][at] != smallest) ++at;
  }
  return at;
}

}  // namespace quire::context
