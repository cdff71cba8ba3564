// expert_routes.h: which experts each row takes, and the rows that each expert is given.
//
// The rows of an expert stand side by side, ascending, so that its matrices are read once a batch;
// where a pair stands changes no bit of it. Plain data and pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace quire::model {

/// One expert of one row, and its share in the sum.
struct ExpertChoice {
  int32_t expert = 0;
  float share = 0.0f;
};

/// The experts of the largest shares, the lower index first among equals; listed ascending by
/// index, in which order they are added up. // shares: [experts], of a softmax
std::vector<ExpertChoice> choose_experts(std::span<const float> shares, const ExpertConfig& config);

struct ExpertRoutes {
  std::vector<ExpertChoice> choices;  // [rows, per_token]
  std::vector<int32_t> places;        // [rows, per_token]: where among all pairs a choice stands
  std::vector<int32_t> rows;          // [pairs]: the row of each pair, expert after expert
  std::vector<int32_t> first_pair;    // [experts + 1]

  int32_t num_pairs() const { return static_cast<int32_t>(choices.size()); }
  int32_t pairs_of(int32_t expert) const {
    const auto e = static_cast<size_t>(expert);
    return first_pair[e + 1] - first_pair[e];
  }
};

/// Sorts the choices of all rows by expert.
ExpertRoutes sort_by_expert(std::vector<ExpertChoice> choices, const ExpertConfig& config);

}  // namespace quire::model
