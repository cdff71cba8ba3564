#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace quire::engine {
namespace {

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

/// SplitMix64's output function. // Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

bool likelier(double a_logit, int32_t a_id, double b_logit, int32_t b_id) {
  return a_logit != b_logit ? a_logit > b_logit : a_id < b_id;
}

}  // namespace

double keyed_uniform(uint64_t seed, int32_t choice, int64_t position) {
  const uint64_t key = mixed(mixed(seed) ^ static_cast<uint64_t>(static_cast<uint32_t>(choice)));
  return static_cast<double>(mixed(key ^ static_cast<uint64_t>(position)) >> 11) * 0x1p-53;
}

Result<void> check_sampling(const SamplingOptions& o, int32_t vocab) {
  if (!(o.temperature >= 0.0) || !std::isfinite(o.temperature)) {
    return usage(fmt::format("temperature {} must be 0 or more", o.temperature));
  }
  if (o.top_k < 0) return usage(fmt::format("top-k {} must be 0 (no limit) or more", o.top_k));
  if (!(o.top_p > 0.0 && o.top_p <= 1.0)) {
    return usage(fmt::format("top-p {} must be above 0 and at most 1", o.top_p));
  }
  if (!(o.min_p >= 0.0 && o.min_p <= 1.0)) {
    return usage(fmt::format("min-p {} must be between 0 and 1", o.min_p));
  }
  if (!(o.repeat_penalty > 0.0) || !std::isfinite(o.repeat_penalty)) {
    return usage(fmt::format("repeat penalty {} must be above 0", o.repeat_penalty));
  }
  if (!std::isfinite(o.presence_penalty) || !std::isfinite(o.frequency_penalty)) {
    return usage(fmt::format("presence penalty {} and frequency penalty {} must be finite",
                             o.presence_penalty, o.frequency_penalty));
  }
  if (o.penalty_window < 0) return usage("the penalty window must be 0 or more tokens");
  for (const auto& [id, bias] : o.logit_bias) {
    if (id.value < 0 || id.value >= vocab) {
      return usage(
          fmt::format("logit bias: token {} is outside the vocabulary of {}", id.value, vocab));
    }
    if (std::isnan(bias))
      return usage(fmt::format("logit bias of token {} is no number", id.value));
  }
  return {};
}

Sampler::Sampler(SamplingOptions options) : options_(std::move(options)) {}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> history,
                        int64_t position) {
  QUIRE_CHECK(!logits.empty(), "nothing to choose from");
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : options_.logit_bias)
    adjusted_[static_cast<size_t>(id.value)] += bias;
  apply_penalties(history);
  if (options_.temperature == 0.0) {
    const auto largest = std::ranges::max_element(adjusted_);
    return TokenId{static_cast<int32_t>(largest - adjusted_.begin())};
  }
  keep_top_k();
  keep_top_p();
  keep_min_p();
  return draw(position);
}

void Sampler::apply_penalties(std::span<const TokenId> history) {
  const SamplingOptions& o = options_;
  if (o.repeat_penalty == 1.0 && o.presence_penalty == 0.0 && o.frequency_penalty == 0.0) return;
  const size_t seen = std::min(history.size(), static_cast<size_t>(o.penalty_window));
  std::map<TokenId, int32_t> counts;
  for (const TokenId token : history.last(seen)) ++counts[token];
  for (const auto& [token, count] : counts) {
    double& logit = adjusted_[static_cast<size_t>(token.value)];
    logit = logit > 0.0 ? logit / o.repeat_penalty : logit * o.repeat_penalty;
    logit -= o.presence_penalty + o.frequency_penalty * count;
  }
}

void Sampler::keep_top_k() {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return likelier(a.logit, a.id, b.logit, b.id);
  };
  candidates_.clear();
  const size_t wanted =
      options_.top_k == 0 ? adjusted_.size() : static_cast<size_t>(options_.top_k);
  // A heap whose front is the worst kept: nearly every logit fails one comparison with it.
  for (size_t i = 0; i < adjusted_.size(); ++i) {
    const Candidate candidate{adjusted_[i], static_cast<int32_t>(i)};
    if (candidates_.size() < wanted) {
      candidates_.push_back(candidate);
      if (candidates_.size() == wanted) std::ranges::make_heap(candidates_, better);
    } else if (better(candidate, candidates_.front())) {
      std::ranges::pop_heap(candidates_, better);
      candidates_.back() = candidate;
      std::ranges::push_heap(candidates_, better);
    }
  }
  std::ranges::sort(candidates_, better);
}

void Sampler::keep_top_p() {
  if (options_.top_p >= 1.0) return;
  const double largest = candidates_.front().logit;
  double total = 0.0;
  for (const Candidate& c : candidates_) total += std::exp(c.logit - largest);
  double sum = 0.0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    sum += std::exp(candidates_[i].logit - largest);
    if (sum >= options_.top_p * total) {
      candidates_.resize(i + 1);
      return;
    }
  }
}

void Sampler::keep_min_p() {
  if (options_.min_p <= 0.0) return;
  const double least = candidates_.front().logit + std::log(options_.min_p);
  const auto too_small = [&](const Candidate& c) { return c.logit < least; };
  candidates_.erase(std::find_if(candidates_.begin() + 1, candidates_.end(), too_small),
                    candidates_.end());
}

TokenId Sampler::draw(int64_t position) const {
  const double largest = candidates_.front().logit;
  std::vector<double> cumulative;
  double sum = 0.0;
  for (const Candidate& c : candidates_) {
    sum += std::exp((c.logit - largest) / options_.temperature);
    cumulative.push_back(sum);
  }
  const double target = keyed_uniform(options_.seed, options_.choice, position) * sum;
  const auto hit = std::ranges::upper_bound(cumulative, target);
  const auto index =
      std::min<size_t>(static_cast<size_t>(hit - cumulative.begin()), candidates_.size() - 1);
  return TokenId{candidates_[index].id};
}

}  // namespace quire::engine
