// logprobs.h: log-probabilities of tokens from their logits, in double.
//
// Pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire::engine {

struct TokenLogprob {
  TokenId id;
  double logprob = 0.0;
};

/// log(sum(exp(logits))).
double log_sum_exp(std::span<const float> logits);

/// log softmax(logits)[id]. Requires a valid id.
double logprob(std::span<const float> logits, TokenId id);

/// The `count` likeliest tokens, likeliest first, lower ids first on ties.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int32_t count);

/// The largest logit's token, the lower id on a tie.
TokenId argmax(std::span<const float> logits);

}  // namespace quire::engine
