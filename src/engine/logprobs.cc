#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace quire::engine {

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

double logprob(std::span<const float> logits, TokenId id) {
  QUIRE_CHECK(id.value >= 0 && static_cast<size_t>(id.value) < logits.size(), "no such token");
  return logits[static_cast<size_t>(id.value)] - log_sum_exp(logits);
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int32_t count) {
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const size_t kept = std::min(ids.size(), static_cast<size_t>(std::max(count, 0)));
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(),
                    likelier);
  const double normaliser = log_sum_exp(logits);
  std::vector<TokenLogprob> top;
  for (size_t i = 0; i < kept; ++i) {
    top.push_back({TokenId{ids[i]}, logits[static_cast<size_t>(ids[i])] - normaliser});
  }
  return top;
}

TokenId argmax(std::span<const float> logits) {
  return TokenId{static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

}  // namespace quire::engine
