// draft_policy.h: how many guessed tokens are worth verifying in the next step.
//
// A step of several rows takes longer than one of a single row; guesses pay when enough of them are
// right. Both are learned: times of steps by their number of rows, and how often a guess is right,
// which is seen even while nothing is drafted. What is decided changes how long an answer takes and
// no bit of it. Plain state; use from one thread.
#pragma once
#include <array>
#include <cstdint>

namespace quire::engine {

enum class DraftRule : uint8_t {
  kWhenItPays,
  kAlways,  // for tests: whenever there is something to guess
  kNever,
};

struct DraftOptions {
  DraftRule rule = DraftRule::kWhenItPays;
  int32_t most = 8;  // tokens, at most kMostDrafts
};

class DraftPolicy {
 public:
  static constexpr int32_t kMostDrafts = 16;

  explicit DraftPolicy(DraftOptions options) : options_(options) {}

  /// How many of at most `available` guesses to verify in the next step.
  int32_t choose(int32_t available) const;

  /// A step of so many rows took so long.
  void note_step(int32_t rows, double ms);
  /// Of so many guesses, the first `right` ones were right and the next, if there is one, wrong.
  void note_guesses(int32_t guesses, int32_t right);

  /// The share of guesses that were right lately.
  double hit_rate() const { return hit_rate_; }

 private:
  double expected_ms(int32_t rows) const;

  DraftOptions options_;
  std::array<double, kMostDrafts + 2> step_ms_{};  // [rows], 0: not yet seen
  double hit_rate_ = 0.5;
};

}  // namespace quire::engine
