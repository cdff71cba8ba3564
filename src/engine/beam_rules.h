// beam_rules.h: the decisions of beam search apart from any model: which continuations are best,
// which finished answers to keep, and whether a better one can still come.
//
// They are those of `generate(num_beams=N, do_sample=False)` in Hugging Face transformers 5.24.0
// (generation/utils.py, _beam_search) for one prompt. Sums are kept in double; of equal scores the
// earlier beam, then the lower token id, then the earlier answer comes first. Pure; one thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::engine {

enum class EarlyStopping : uint8_t {
  kNo,     // as soon as the best beam, at its present length, is no better than the N-th answer
  kYes,    // as soon as there are N answers
  kNever,  // only when no beam can become better than the N-th answer at any length
};

struct BeamRules {
  int32_t beams = 4;
  /// An answer's score is its log-probability / length^length_penalty: above 0 favours long ones.
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kNo;
};

inline constexpr int32_t kMostBeams = 64;
inline constexpr double kMostLengthPenalty = 10.0;

/// kUsage, naming the option, for a number of beams outside [1, kMostBeams] or a penalty that is
/// beyond ±kMostLengthPenalty.
[[nodiscard]] Result<void> check_beams(const BeamRules& rules);

/// One more token on one beam.
struct Continuation {
  int32_t beam = 0;
  TokenId token;
  double logprob = 0.0;  // of the token
  double score = 0.0;    // of the beam with it: a sum of log-probabilities
};

/// The `count` best continuations of all beams together, best first; fewer if there are fewer with
/// a probability above zero. One pass over the logits with a heap of `count`. // logits: [beams,
/// vocab], scores: [beams]
[[nodiscard]] std::vector<Continuation> best_continuations(std::span<const float> logits,
                                                           std::span<const double> scores,
                                                           size_t count);

/// score / tokens^length_penalty. Requires tokens >= 1: those generated, an end token included.
[[nodiscard]] double normalised_score(double score, int64_t tokens, double length_penalty);

/// A finished answer, by the number that its owner knows it by.
struct Hypothesis {
  int32_t id = 0;
  double score = 0.0;  // normalised
};

/// The best few answers so far, best first.
class Hypotheses {
 public:
  explicit Hypotheses(int32_t most) : most_(static_cast<size_t>(most)) {}

  /// Keeps it if it is among the best.
  void add(const Hypothesis& hypothesis);
  [[nodiscard]] bool full() const { return best_.size() == most_; }
  [[nodiscard]] std::span<const Hypothesis> best_first() const { return best_; }

 private:
  size_t most_;
  std::vector<Hypothesis> best_;
};

/// Where a search stands after a token.
struct BeamProgress {
  double best_running = 0.0;  // the best unfinished beam's sum of log-probabilities
  int64_t generated = 0;      // tokens of every unfinished beam
  int64_t max_tokens = 0;
};

/// Whether the search is over although it could go on.
[[nodiscard]] bool is_settled(const BeamRules& rules, const Hypotheses& hypotheses,
                              const BeamProgress& progress);

}  // namespace quire::engine
