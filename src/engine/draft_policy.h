// draft_policy.h: how many guessed tokens are worth verifying in the next step.
//
// A step of several rows takes longer than one of a single row; guesses pay when enough of them are
// right. Both are learned: times of steps by their number of rows, and how often a guess is right,
// which is seen even while nothing is drafted. What is decided changes how long an answer takes and
// no bit of it. Plain state; use from one thread.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

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

constexpr int32_t kMostDrafts = 16;     // in a step
constexpr int32_t kMostDraftRows = 32;  // that a step with drafts may have

/// Of a whole answer.
struct DraftCounts {
  int64_t drafted = 0;
  int64_t accepted = 0;
};

/// How long steps take, by their number of rows.
class StepTimes {
 public:
  /// Steps of more rows than kMostDraftRows tell nothing.
  void note(int32_t rows, double ms);
  /// What was seen; else what the nearest known number of rows suggests; else a share of a step of
  /// unknown length. 1 <= rows <= kMostDraftRows.
  [[nodiscard]] double expected_ms(int32_t rows) const;

 private:
  std::array<double, kMostDraftRows + 1> ms_{};  // [rows], 0: not yet seen
};

/// The share of guesses in a text that were right lately.
class HitRate {
 public:
  /// Of so many guesses, the first `right` ones were right and the next, if there is one, wrong.
  void note(int32_t guesses, int32_t right);
  [[nodiscard]] double value() const { return rate_; }

 private:
  double rate_ = 0.5;
};

/// A sequence that decodes, and what there is to guess of it.
struct Guesser {
  int32_t available = 0;  // guesses, within what its options and its end allow
  double hit_rate = 0.0;
  DraftRule rule = DraftRule::kWhenItPays;
};

/// How many guesses of each sequence to verify in a step in which each runs its next token: so many
/// that tokens come fastest, at most kMostDrafts and `most_rows` less the sequences. Where several
/// decode, the step may not take much longer than without guesses: who has none would wait for the
/// others'. Pure. // result: [guessers]
std::vector<int32_t> plan_drafts(std::span<const Guesser> guessers, const StepTimes& times,
                                 int32_t most_rows = kMostDraftRows);

/// The same for one sequence alone, with its own memory.
class DraftPolicy {
 public:
  explicit DraftPolicy(DraftOptions options) : options_(options) {}

  /// How many of at most `available` guesses to verify in the next step.
  int32_t choose(int32_t available) const;

  /// A step of so many rows took so long.
  void note_step(int32_t rows, double ms) { times_.note(rows, ms); }
  void note_guesses(int32_t guesses, int32_t right) { hits_.note(guesses, right); }

  double hit_rate() const { return hits_.value(); }

 private:
  DraftOptions options_;
  StepTimes times_;
  HitRate hits_;
};

}  // namespace quire::engine
