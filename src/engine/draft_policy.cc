#include "engine/draft_policy.h"

#include <algorithm>

#include "base/check.h"

namespace quire::engine {
namespace {

// Weights of the newest observation. Times wobble on a busy machine; texts change their nature.
constexpr double kTimeWeight = 0.2;
constexpr double kHitWeight = 0.1;
// A further row's share of a single row's time before anything is known: batches share the weights'
// way through memory, and only their arithmetic adds up.
constexpr double kRowShare = 0.12;
// A draft must promise more than a coin's worth: its time is known less well than that of a row.
constexpr double kMargin = 1.03;

}  // namespace

int32_t DraftPolicy::choose(int32_t available) const {
  available = std::min({available, options_.most, kMostDrafts});
  if (options_.rule == DraftRule::kNever || available <= 0) return 0;
  if (options_.rule == DraftRule::kAlways) return available;
  int32_t best = 0;
  double best_rate = kMargin / expected_ms(1);
  double expected_tokens = 1.0;  // the one that is known, and guesses as long as all are right
  double all_right = 1.0;
  for (int32_t guesses = 1; guesses <= available; ++guesses) {
    all_right *= hit_rate_;
    expected_tokens += all_right;
    const double rate = expected_tokens / expected_ms(guesses + 1);
    if (rate > best_rate) {
      best = guesses;
      best_rate = rate;
    }
  }
  return best;
}

void DraftPolicy::note_step(int32_t rows, double ms) {
  QUIRE_CHECK(rows >= 1 && rows <= kMostDrafts + 1, "a step has a token and its drafts");
  double& known = step_ms_[static_cast<size_t>(rows)];
  known = known == 0.0 ? ms : known + kTimeWeight * (ms - known);
}

void DraftPolicy::note_guesses(int32_t guesses, int32_t right) {
  for (int32_t i = 0; i < std::min(right + 1, guesses); ++i) {
    hit_rate_ += kHitWeight * ((i < right ? 1.0 : 0.0) - hit_rate_);
  }
}

/// What was seen; else what the nearest known number of rows suggests.
double DraftPolicy::expected_ms(int32_t rows) const {
  if (step_ms_[static_cast<size_t>(rows)] > 0.0) return step_ms_[static_cast<size_t>(rows)];
  for (int32_t distance = 1; distance <= kMostDrafts; ++distance) {
    for (const int32_t near : {rows - distance, rows + distance}) {
      if (near < 1 || near > kMostDrafts + 1) continue;
      const double known = step_ms_[static_cast<size_t>(near)];
      if (known > 0.0) {
        return known * (1.0 + kRowShare * (rows - 1)) / (1.0 + kRowShare * (near - 1));
      }
    }
  }
  return 1.0 + kRowShare * (rows - 1);
}

}  // namespace quire::engine
