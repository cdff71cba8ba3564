#include "engine/beam_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/logprobs.h"

namespace quire::engine {
namespace {

bool better(const Continuation& a, const Continuation& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

}  // namespace

Result<void> check_beams(const BeamRules& rules) {
  if (rules.beams < 1 || rules.beams > kMostBeams) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--beams {} must be between 1 and {}", rules.beams, kMostBeams)};
  }
  if (!(std::abs(rules.length_penalty) <= kMostLengthPenalty)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--length-penalty {} must be between -{} and {}", rules.length_penalty,
                             kMostLengthPenalty, kMostLengthPenalty)};
  }
  return {};
}

std::vector<Continuation> best_continuations(std::span<const float> logits,
                                             std::span<const double> scores, size_t count) {
  QUIRE_CHECK(!scores.empty() && count > 0, "nothing to choose from");
  const size_t vocab = logits.size() / scores.size();
  QUIRE_CHECK_EQ(vocab * scores.size(), logits.size());
  std::vector<Continuation> best;
  for (size_t beam = 0; beam < scores.size(); ++beam) {
    const auto row = logits.subspan(beam * vocab, vocab);
    const double normaliser = log_sum_exp(row);
    for (size_t token = 0; token < vocab; ++token) {
      const double logprob = row[token] - normaliser;
      const Continuation next{static_cast<int32_t>(beam), TokenId{static_cast<int32_t>(token)},
                              logprob, scores[beam] + logprob};
      // Also keeps NaN out, which has no place in an order.
      if (!std::isfinite(next.score)) continue;
      // A heap whose front is the worst kept: nearly every token fails one comparison with it.
      if (best.size() < count) {
        best.push_back(next);
        std::ranges::push_heap(best, better);
      } else if (better(next, best.front())) {
        std::ranges::pop_heap(best, better);
        best.back() = next;
        std::ranges::push_heap(best, better);
      }
    }
  }
  std::ranges::sort_heap(best, better);
  return best;
}

double normalised_score(double score, int64_t tokens, double length_penalty) {
  QUIRE_CHECK_LE(1, tokens);
  return score / std::pow(static_cast<double>(tokens), length_penalty);
}

void Hypotheses::add(const Hypothesis& hypothesis) {
  const auto behind =
      std::ranges::upper_bound(best_, hypothesis.score, std::ranges::greater(), &Hypothesis::score);
  best_.insert(behind, hypothesis);
  if (best_.size() > most_) best_.pop_back();
}

bool is_settled(const BeamRules& rules, const Hypotheses& hypotheses,
                const BeamProgress& progress) {
  if (!hypotheses.full()) return false;
  if (rules.early_stopping == EarlyStopping::kYes) return true;
  // The sum only falls as tokens come, so a positive penalty is kindest to it at the full length.
  const bool hopes = rules.early_stopping == EarlyStopping::kNever && rules.length_penalty > 0.0;
  const double possible =
      normalised_score(progress.best_running, hopes ? progress.max_tokens : progress.generated,
                       rules.length_penalty);
  return !(possible > hypotheses.best_first().back().score);
}

}  // namespace quire::engine
