// sampler.h: chooses the next token from logits.
//
// In the order that llama.cpp's users know: logit bias, repeat / presence / frequency penalties,
// top-k, top-p, min-p, temperature, draw. Temperature 0 is greedy: the largest adjusted logit, the
// lower id on a tie. Random numbers are keyed by (seed, choice, position), so a token's draw does
// not depend on what was drawn before. Use one from one thread at a time.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::engine {

struct SamplingOptions {
  double temperature = 0.8;
  int32_t top_k = 40;   // 0: no limit
  double top_p = 0.95;  // 1: no limit
  double min_p = 0.05;  // 0: no limit
  double repeat_penalty =
      1.0;  // divides positive, multiplies negative logits. // CTRL, arXiv:1909.05858
  double presence_penalty = 0.0;   // subtracted once from every token seen
  double frequency_penalty = 0.0;  // subtracted for each time it was seen
  int32_t penalty_window = 64;     // last tokens that the penalties look at
  std::vector<std::pair<TokenId, double>> logit_bias;
  uint64_t seed = 0;
  int32_t choice = 0;
};

/// Refuses what is no setting: negative temperature, top-p outside (0, 1], a penalty that is not
/// finite, a biased id outside the vocabulary. The sentence names the option.
Result<void> check_sampling(const SamplingOptions& options, int32_t vocab);

class Sampler {
 public:
  /// Requires check_sampling() to have passed.
  explicit Sampler(SamplingOptions options);

  /// The token at `position`, given its logits and the tokens before it. // logits: [vocab]
  TokenId sample(std::span<const float> logits, std::span<const TokenId> history, int64_t position);

 private:
  struct Candidate {
    double logit;
    int32_t id;
  };
  void apply_penalties(std::span<const TokenId> history);
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();
  TokenId draw(int64_t position) const;

  SamplingOptions options_;
  std::vector<double> adjusted_;       // [vocab]
  std::vector<Candidate> candidates_;  // descending
};

/// A number in [0, 1) that depends on its arguments only.
double keyed_uniform(uint64_t seed, int32_t choice, int64_t position);

}  // namespace quire::engine
