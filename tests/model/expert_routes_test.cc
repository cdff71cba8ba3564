#include "model/expert_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::model {
namespace {

using testing::ElementsAre;

ExpertConfig pick(int32_t per_token, int32_t of, bool renormalise) {
  return {
      .count = of, .per_token = per_token, .ffn = 1, .shared_ffn = 0, .renormalise = renormalise};
}

std::vector<int32_t> experts_of(const std::vector<ExpertChoice>& choices) {
  std::vector<int32_t> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, TakesTheLargestSharesInAscendingOrderOfExperts) {
  const float shares[] = {0.1f, 0.4f, 0.05f, 0.3f, 0.15f};
  const auto choices = choose_experts(shares, pick(3, 5, false));
  EXPECT_THAT(experts_of(choices), ElementsAre(1, 3, 4));
  EXPECT_EQ(choices[1].share, 0.3f);
}

TEST(ChooseExperts, GivesTiesToTheLowerIndex) {
  const float shares[] = {0.2f, 0.2f, 0.2f, 0.2f, 0.2f};
  EXPECT_THAT(experts_of(choose_experts(shares, pick(2, 5, false))), ElementsAre(0, 1));
}

TEST(ChooseExperts, RenormalisesWhereTheModelDoes) {
  const float shares[] = {0.125f, 0.5f, 0.25f, 0.125f};
  const auto choices = choose_experts(shares, pick(2, 4, true));
  EXPECT_FLOAT_EQ(choices[0].share, 2.0f / 3.0f);
  EXPECT_FLOAT_EQ(choices[1].share, 1.0f / 3.0f);
}

TEST(SortByExpert, PutsTheRowsOfEachExpertSideBySide) {
  // Row 0 takes experts 1 and 3, row 1 takes 0 and 1, row 2 takes 1 and 3.
  const ExpertRoutes routes = sort_by_expert(
      {{1, 0.5f}, {3, 0.5f}, {0, 0.5f}, {1, 0.5f}, {1, 0.5f}, {3, 0.5f}}, pick(2, 4, false));
  EXPECT_EQ(routes.num_pairs(), 6);
  EXPECT_THAT(routes.first_pair, ElementsAre(0, 1, 4, 4, 6));
  EXPECT_THAT(routes.rows, ElementsAre(1, 0, 1, 2, 0, 2));
  EXPECT_EQ(routes.pairs_of(2), 0);
  for (size_t i = 0; i < routes.choices.size(); ++i) {
    const auto place = static_cast<size_t>(routes.places[i]);
    EXPECT_EQ(routes.rows[place], static_cast<int32_t>(i) / 2) << i;
    EXPECT_GE(routes.places[i], routes.first_pair[static_cast<size_t>(routes.choices[i].expert)]);
  }
}

}  // namespace
}  // namespace quire::model
