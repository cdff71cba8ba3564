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
  EXPECT_EQ(DraftPolicy({.rule = DraftRule::kAlways, .most = 99}).choose(99), kMostDrafts);
  EXPECT_EQ(DraftPolicy({.rule = DraftRule::kAlways}).choose(0), 0);
  EXPECT_EQ(DraftPolicy({.most = 0}).choose(8), 0);
}

// --- several sequences in one step ---

/// A machine on which a step takes 5 ms and each row after the first `row_ms` more.
StepTimes times_of(double row_ms) {
  StepTimes times;
  for (int32_t rows = 1; rows <= kMostDraftRows; ++rows)
    times.note(rows, 5.0 + row_ms * (rows - 1));
  return times;
}

TEST(PlanDrafts, GivesRowsToThoseWhoseGuessesAreRight) {
  const Guesser sure{.available = 8, .hit_rate = 0.95};
  const Guesser unsure{.available = 8, .hit_rate = 0.01};
  const auto plan = plan_drafts(std::vector{unsure, sure}, times_of(0.1));
  EXPECT_EQ(plan[0], 0);
  EXPECT_GE(plan[1], 4);
}

TEST(PlanDrafts, GuessesNothingWhereEachRowCostsWhatItBrings) {
  const std::vector<Guesser> sixteen(16, {.available = 8, .hit_rate = 0.9});
  const auto plan = plan_drafts(sixteen, times_of(5.0));
  EXPECT_EQ(plan, std::vector<int32_t>(16, 0));
}

TEST(PlanDrafts, LetsNobodyWaitLongForTheGuessesOfAnother) {
  const Guesser sure{.available = 16, .hit_rate = 1.0};
  const Guesser none{.available = 0, .hit_rate = 0.5};
  // Alone, sixteen guesses in a step of 21 ms are fine; beside another the step may take 30 % more.
  EXPECT_EQ(plan_drafts(std::vector{sure}, times_of(1.0)), std::vector<int32_t>{16});
  EXPECT_EQ(plan_drafts(std::vector{sure, none}, times_of(1.0)), (std::vector<int32_t>{1, 0}));
}

TEST(PlanDrafts, KeepsToTheRowsOfAStep) {
  const std::vector<Guesser> four(4, {.available = 8, .hit_rate = 1.0});
  const auto sum = [](const std::vector<int32_t>& plan) {
    return plan[0] + plan[1] + plan[2] + plan[3];
  };
  EXPECT_EQ(sum(plan_drafts(four, times_of(0.0))), kMostDrafts);
  EXPECT_EQ(sum(plan_drafts(four, times_of(0.0), 9)), 5);
  EXPECT_EQ(sum(plan_drafts(four, times_of(0.0), 4)), 0);
  EXPECT_EQ(sum(plan_drafts(four, times_of(0.0), 0)), 0);
  EXPECT_TRUE(plan_drafts({}, times_of(0.0)).empty());
  const std::vector<Guesser> many(40,
                                  {.available = 8, .hit_rate = 1.0, .rule = DraftRule::kAlways});
  EXPECT_EQ(plan_drafts(many, times_of(0.0)), std::vector<int32_t>(40, 0));
}

TEST(PlanDrafts, FollowsTheRuleOfEach) {
  std::vector<Guesser> all(3, {.available = 3, .hit_rate = 0.0});
  all[0].rule = DraftRule::kAlways;
  all[1] = {.available = 3, .hit_rate = 1.0, .rule = DraftRule::kNever};
  EXPECT_EQ(plan_drafts(all, times_of(5.0)), (std::vector<int32_t>{3, 0, 0}));
}

}  // namespace
}  // namespace quire::engine
