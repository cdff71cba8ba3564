// min_tree.h: the leftmost smallest of many numbers, while they change.
//
// A tree of minima with 16 numbers below each: a change touches a cache line a level, and changes
// close to each other the same lines. That is why it beats a heap on the long words of BPE, where
// the best merge is most often next to the last one. One thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::context {

class MinTree {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};  // larger than any number that counts

  /// Takes `numbers`, which must not be empty.
  void assign(std::vector<uint32_t>& numbers);

  uint32_t operator[](size_t i) const { return levels_[0][i]; }
  void set(size_t i, uint32_t number);

  uint32_t smallest() const { return levels_.back()[0]; }
  /// Where the leftmost number that equals smallest() is.
  size_t where() const;

 private:
  static constexpr size_t kFanout = 16;
  uint32_t smallest_of(const std::vector<uint32_t>& below, size_t group) const;

  // levels_[k + 1][i] is the smallest of levels_[k][16 i, 16 i + 16); each is padded with kNone to
  // whole groups; the last has one number that counts.
  std::vector<std::vector<uint32_t>> levels_;
};

}  // namespace quire::context
