#include "engine/draft_policy.h"

#include <gtest/gtest.h>

namespace quire::engine {
namespace {

/// A machine on which each further row costs `share` of a single row's time.
void learn_times(DraftPolicy& policy, double share) {
  for (int i = 0; i < 50; ++i) {
    for (int32_t rows = 1; rows <= 9; ++rows)
      policy.note_step(rows, 5.0 * (1 + share * (rows - 1)));
  }
}

TEST(DraftPolicy, DraftsMoreTheMoreGuessesAreRight) {
  DraftPolicy policy({});
  learn_times(policy, 0.12);
  for (int i = 0; i < 100; ++i) policy.note_guesses(4, 4);
  EXPECT_GT(policy.hit_rate(), 0.99);
  EXPECT_EQ(policy.choose(8), 8);
  EXPECT_EQ(policy.choose(3), 3);
  for (int i = 0; i < 12; ++i) policy.note_guesses(1, 0);
  EXPECT_LT(policy.choose(8), 4);
}

TEST(DraftPolicy, StopsWhereGuessesAreWrongAndStartsAgainWhereTheyAreRight) {
  DraftPolicy policy({});
  learn_times(policy, 0.12);
  for (int i = 0; i < 100; ++i) policy.note_guesses(1, 0);
  EXPECT_EQ(policy.choose(8), 0);
  // Not drafting, it still sees what guesses would have been worth.
  for (int i = 0; i < 30; ++i) policy.note_guesses(1, 1);
  EXPECT_GT(policy.choose(8), 0);
}

TEST(DraftPolicy, DraftsNothingWhereRowsCostAsMuchAsSteps) {
  DraftPolicy policy({});
  learn_times(policy, 1.0);
  for (int i = 0; i < 100; ++i) policy.note_guesses(4, 4);
  EXPECT_EQ(policy.choose(8), 0);
}

TEST(DraftPolicy, FollowsItsRuleAndItsLimit) {
  EXPECT_EQ(DraftPolicy({.rule = DraftRule::kNever}).choose(8), 0);
  EXPECT_EQ(DraftPolicy({.rule = DraftRule::kAlways, .most = 5}).choose(8), 5);
  EXPECT_EQ(DraftPolicy({.rule = DraftRule::kAlways, .most = 99}).choose(99),
            DraftPolicy::kMostDrafts);
  EXPECT_EQ(DraftPolicy({.rule = DraftRule::kAlways}).choose(0), 0);
  EXPECT_EQ(DraftPolicy({.most = 0}).choose(8), 0);
}

}  // namespace
}  // namespace quire::engine
