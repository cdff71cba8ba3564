#include "model/expert_routes.h"

#include <algorithm>
#include <numeric>

namespace quire::model {

std::vector<ExpertChoice> choose_experts(std::span<const float> shares,
                                         const ExpertConfig& config) {
  std::vector<int32_t> order(shares.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int32_t a, int32_t b) {
    const float share_a = shares[static_cast<size_t>(a)];
    const float share_b = shares[static_cast<size_t>(b)];
    return share_a > share_b || (share_a == share_b && a < b);
  };
  const auto wanted = order.begin() + config.per_token;
  std::partial_sort(order.begin(), wanted, order.end(), larger);
  std::sort(order.begin(), wanted);

  std::vector<ExpertChoice> choices;
  float total = 0.0f;
  for (auto it = order.begin(); it != wanted; ++it) {
    choices.push_back({*it, shares[static_cast<size_t>(*it)]});
    total += choices.back().share;
  }
  if (config.renormalise) {
    for (ExpertChoice& choice : choices) choice.share /= total;
  }
  return choices;
}

ExpertRoutes sort_by_expert(std::vector<ExpertChoice> choices, const ExpertConfig& config) {
  ExpertRoutes routes;
  routes.first_pair.resize(static_cast<size_t>(config.count) + 1);
  for (const ExpertChoice& choice : choices) {
    ++routes.first_pair[static_cast<size_t>(choice.expert) + 1];
  }
  std::partial_sum(routes.first_pair.begin(), routes.first_pair.end(), routes.first_pair.begin());
  std::vector<int32_t> next(routes.first_pair.begin(), routes.first_pair.end() - 1);
  routes.rows.resize(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const int32_t place = next[static_cast<size_t>(choices[i].expert)]++;
    routes.places.push_back(place);
    routes.rows[static_cast<size_t>(place)] = static_cast<int32_t>(i) / config.per_token;
  }
  routes.choices = std::move(choices);
  return routes;
}

}  // namespace quire::model
