// ngram_drafter.h: guesses how a text goes on from where its last words stood before.
//
// Answers repeat their prompt: code that is edited, a document that is quoted, names, lists. The
// tokens that followed the last occurrence of the newest few are proposed; whoever verifies them
// throws away what is wrong, so a guess costs time at worst. // prompt lookup, arXiv:2304.04487
// Plain state; use from one thread.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace quire::engine {

class NgramDrafter {
 public:
  /// The text goes on with these.
  void extend(std::span<const TokenId> tokens);
  const std::vector<TokenId>& tokens() const { return tokens_; }

  /// At most `most` tokens that may come next; none if the newest stood nowhere before. Valid until
  /// extend().
  std::span<const TokenId> draft(int64_t most) const;

 private:
  // A longer run of equal tokens says more about what comes next; a shorter one is met more often.
  static constexpr int64_t kLong = 6;
  static constexpr int64_t kShort = 3;
  using Index = std::unordered_map<uint64_t, int64_t>;  // hash of a run -> position behind it

  uint64_t run_hash(int64_t end, int64_t length) const;
  void note(Index& index, int64_t length);
  /// Behind the last earlier place of the newest `length` tokens, or -1.
  int64_t find(const Index& index, int64_t length) const;

  std::vector<TokenId> tokens_;
  Index long_;
  Index short_;
  // Where the newest run stood before it was noted: it must not be its own earlier place.
  int64_t long_before_ = -1;
  int64_t short_before_ = -1;
};

}  // namespace quire::engine
