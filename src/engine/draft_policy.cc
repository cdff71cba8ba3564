#include "engine/draft_policy.h"

#include <algorithm>
#include <optional>

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
// How many times as long a step may take for the sake of guesses when others decode in it.
constexpr double kMostSlowdown = 1.3;

double shape(int32_t rows) {
  return 1.0 + kRowShare * (rows - 1);
}

/// One guess after the other, each of the sequence whose next one is likeliest to be right.
class DraftPlan {
 public:
  explicit DraftPlan(std::span<const Guesser> guessers)
      : guessers_(guessers),
        guesses_(guessers.size(), 0),
        all_right_(guessers.size(), 1.0),
        expected_tokens_(static_cast<double>(guessers.size())) {}

  /// False if nothing is left to guess.
  bool add_likeliest() {
    std::optional<size_t> best;
    for (size_t i = 0; i < guessers_.size(); ++i) {
      if (!may_add(i)) continue;
      if (!best || chance(i) > chance(*best)) best = i;
    }
    if (best) add(*best);
    return best.has_value();
  }

  /// All guesses of a sequence that wants them whatever they cost.
  void add_forced(int32_t most) {
    for (size_t i = 0; i < guessers_.size(); ++i) {
      if (guessers_[i].rule != DraftRule::kAlways) continue;
      while (may_add(i) && total_ < most) add(i);
    }
  }

  int32_t total() const { return total_; }
  double expected_tokens() const { return expected_tokens_; }
  const std::vector<int32_t>& guesses() const { return guesses_; }

 private:
  bool may_add(size_t i) const {
    return guessers_[i].rule != DraftRule::kNever && guesses_[i] < guessers_[i].available;
  }
  /// That its next guess and all before it are right.
  double chance(size_t i) const { return all_right_[i] * guessers_[i].hit_rate; }
  void add(size_t i) {
    all_right_[i] = chance(i);
    expected_tokens_ += all_right_[i];
    ++guesses_[i];
    ++total_;
  }

  std::span<const Guesser> guessers_;
  std::vector<int32_t> guesses_;   // of each sequence
  std::vector<double> all_right_;  // the chance of that
  double expected_tokens_;         // the known ones, and guesses as long as all are right
  int32_t total_ = 0;
};

}  // namespace

void StepTimes::note(int32_t rows, double ms) {
  QUIRE_CHECK_LE(1, rows);
  if (rows > kMostDraftRows) return;
  double& known = ms_[static_cast<size_t>(rows)];
  known = known == 0.0 ? ms : known + kTimeWeight * (ms - known);
}

double StepTimes::expected_ms(int32_t rows) const {
  QUIRE_CHECK(rows >= 1 && rows <= kMostDraftRows, "a step with drafts has few rows");
  if (ms_[static_cast<size_t>(rows)] > 0.0) return ms_[static_cast<size_t>(rows)];
  for (int32_t distance = 1; distance < kMostDraftRows; ++distance) {
    for (const int32_t near : {rows - distance, rows + distance}) {
      if (near < 1 || near > kMostDraftRows) continue;
      const double known = ms_[static_cast<size_t>(near)];
      if (known > 0.0) return known * shape(rows) / shape(near);
    }
  }
  return shape(rows);
}

void HitRate::note(int32_t guesses, int32_t right) {
  for (int32_t i = 0; i < std::min(right + 1, guesses); ++i) {
    rate_ += kHitWeight * ((i < right ? 1.0 : 0.0) - rate_);
  }
}

std::vector<int32_t> plan_drafts(std::span<const Guesser> guessers, const StepTimes& times,
                                 int32_t most_rows) {
  const auto sequences = static_cast<int32_t>(guessers.size());
  const int32_t most = std::min(kMostDrafts, std::min(most_rows, kMostDraftRows) - sequences);
  DraftPlan plan(guessers);
  if (most <= 0 || guessers.empty()) return plan.guesses();
  plan.add_forced(most);
  std::vector<int32_t> best = plan.guesses();
  if (plan.total() > 0) return best;
  const double plain_ms = times.expected_ms(sequences);
  double best_rate = kMargin * plan.expected_tokens() / plain_ms;
  while (plan.total() < most && plan.add_likeliest()) {
    const double ms = times.expected_ms(sequences + plan.total());
    if (sequences > 1 && ms > kMostSlowdown * plain_ms) break;
    const double rate = plan.expected_tokens() / ms;
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = plan.guesses();
  }
  return best;
}

int32_t DraftPolicy::choose(int32_t available) const {
  const Guesser alone{.available = std::min(available, options_.most),
                      .hit_rate = hits_.value(),
                      .rule = options_.rule};
  return plan_drafts({&alone, 1}, times_).front();
}

}  // namespace quire::engine
