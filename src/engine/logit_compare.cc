#include "engine/logit_compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "engine/logprobs.h"

namespace quire::engine {

double kl_divergence(std::span<const float> reference, std::span<const float> other) {
  QUIRE_CHECK_EQ(reference.size(), other.size());
  const double log_sum_p = log_sum_exp(reference);
  const double log_sum_q = log_sum_exp(other);
  double kl = 0.0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = double{reference[i]} - log_sum_p;
    const double log_q = double{other[i]} - log_sum_q;
    const double p = std::exp(log_p);
    if (p > 0.0) kl += p * (log_p - log_q);
  }
  // Rounding may leave a tiny negative sum where both agree.
  return std::max(kl, 0.0);
}

void LogitComparison::add(std::span<const float> reference, std::span<const float> other) {
  for (size_t i = 0; i < reference.size(); ++i) {
    if (std::bit_cast<uint32_t>(reference[i]) == std::bit_cast<uint32_t>(other[i])) continue;
    if (!first_difference_) first_difference_ = Difference{rows(), static_cast<int64_t>(i)};
    const double difference = std::abs(double{reference[i]} - double{other[i]});
    max_abs_diff_ = std::max(max_abs_diff_, difference);
  }
  kl_.push_back(kl_divergence(reference, other));
  if (argmax(reference) == argmax(other)) ++agreeing_;
}

double LogitComparison::kl_mean() const {
  if (kl_.empty()) return 0.0;
  return std::accumulate(kl_.begin(), kl_.end(), 0.0) / static_cast<double>(kl_.size());
}

double LogitComparison::kl_max() const {
  return kl_.empty() ? 0.0 : *std::ranges::max_element(kl_);
}

double LogitComparison::kl_p99() const {
  if (kl_.empty()) return 0.0;
  std::vector<double> sorted = kl_;
  std::ranges::sort(sorted);
  const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

double LogitComparison::top1_agreement() const {
  if (kl_.empty()) return 1.0;
  return static_cast<double>(agreeing_) / static_cast<double>(kl_.size());
}

}  // namespace quire::engine
