#include "engine/beam_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "engine/logprobs.h"

namespace quire::engine {
namespace {

using testing::HasSubstr;

/// All continuations, sorted whole.
std::vector<Continuation> sorted_continuations(std::span<const float> logits,
                                               std::span<const double> scores) {
  const size_t vocab = logits.size() / scores.size();
  std::vector<Continuation> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    const size_t beam = i / vocab;
    const TokenId token{static_cast<int32_t>(i % vocab)};
    const double p = logprob(logits.subspan(beam * vocab, vocab), token);
    all.push_back({static_cast<int32_t>(beam), token, p, scores[beam] + p});
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Continuation::score);
  return all;
}

void expect_same(const std::vector<Continuation>& got, std::span<const Continuation> wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].beam, wanted[i].beam) << i;
    EXPECT_EQ(got[i].token, wanted[i].token) << i;
    EXPECT_EQ(got[i].logprob, wanted[i].logprob) << i;
    EXPECT_EQ(got[i].score, wanted[i].score) << i;
  }
}

TEST(BeamRules, ChoosesWhatSortingEverythingWouldChoose) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t beams = 1 + random() % 5;
    const size_t vocab = 1 + random() % 60;
    std::vector<float> logits(beams * vocab);
    // Few different values, so that many scores are equal.
    for (float& logit : logits) logit = static_cast<float>(random() % 7) - 3.0f;
    std::vector<double> scores(beams);
    for (double& score : scores) score = -static_cast<double>(random() % 3);
    const auto all = sorted_continuations(logits, scores);
    const size_t count = std::min<size_t>(1 + random() % 40, all.size());
    expect_same(best_continuations(logits, scores, count), std::span(all).first(count));
  }
}

TEST(BeamRules, NeverChoosesWhatHasNoProbability) {
  const float nothing = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {nothing, 1.0f, nothing, 2.0f};
  const auto best = best_continuations(logits, std::vector<double>{0.0}, 4);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].token, TokenId{3});
  EXPECT_EQ(best[1].token, TokenId{1});
  const std::vector<float> broken(4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(best_continuations(broken, std::vector<double>{0.0}, 4).empty());
}

TEST(BeamRules, KeepsTheBestAnswersAndOfEqualOnesTheEarlier) {
  Hypotheses found(2);
  found.add({0, -3.0});
  EXPECT_FALSE(found.full());
  found.add({1, -2.0});
  EXPECT_TRUE(found.full());
  found.add({2, -3.0});
  found.add({3, -2.0});
  found.add({4, -9.0});
  ASSERT_EQ(found.best_first().size(), 2u);
  EXPECT_EQ(found.best_first()[0].id, 1);
  EXPECT_EQ(found.best_first()[1].id, 3);
}

TEST(BeamRules, DividesByTheLengthToThePenalty) {
  EXPECT_EQ(normalised_score(-6.0, 4, 0.0), -6.0);
  EXPECT_EQ(normalised_score(-6.0, 4, 1.0), -1.5);
  EXPECT_EQ(normalised_score(-6.0, 4, 0.5), -3.0);
  EXPECT_EQ(normalised_score(-6.0, 4, -1.0), -24.0);
}

Hypotheses two_answers(double worst) {
  Hypotheses found(2);
  found.add({0, worst});
  found.add({1, worst + 1.0});
  return found;
}

TEST(BeamRules, GoesOnUntilThereAreEnoughAnswers) {
  Hypotheses one(2);
  one.add({0, -0.1});
  for (const EarlyStopping early :
       {EarlyStopping::kNo, EarlyStopping::kYes, EarlyStopping::kNever}) {
    EXPECT_FALSE(is_settled({.beams = 2, .early_stopping = early}, one,
                            {.best_running = -1000.0, .generated = 1, .max_tokens = 9}));
  }
}

TEST(BeamRules, EarlyStoppingEndsWithEnoughAnswersWhateverMightCome) {
  EXPECT_TRUE(is_settled({.beams = 2, .early_stopping = EarlyStopping::kYes}, two_answers(-5.0),
                         {.best_running = -0.1, .generated = 1, .max_tokens = 9}));
}

TEST(BeamRules, WithoutEarlyStoppingThePresentLengthDecides) {
  const BeamRules rules{.beams = 2, .length_penalty = 1.0};
  const auto settled = [&](double running) {
    return is_settled(rules, two_answers(-2.0),
                      {.best_running = running, .generated = 4, .max_tokens = 100});
  };
  EXPECT_FALSE(settled(-7.9));
  EXPECT_TRUE(settled(-8.0));  // as good is not better
  EXPECT_TRUE(settled(-8.1));
}

TEST(BeamRules, NeverStoppingHopesForTheFullLengthIfThePenaltyFavoursIt) {
  const auto settled = [&](double penalty, double running) {
    return is_settled(
        {.beams = 2, .length_penalty = penalty, .early_stopping = EarlyStopping::kNever},
        two_answers(-2.0), {.best_running = running, .generated = 4, .max_tokens = 100});
  };
  EXPECT_FALSE(settled(1.0, -199.0));
  EXPECT_TRUE(settled(1.0, -201.0));
  EXPECT_FALSE(settled(0.0, -1.9));
  EXPECT_TRUE(settled(0.0, -2.1));
  EXPECT_FALSE(settled(-1.0, -0.49));  // -0.49 x 4
  EXPECT_TRUE(settled(-1.0, -0.51));
}

TEST(BeamRules, RefusesWhatIsNoSetting) {
  EXPECT_TRUE(check_beams({.beams = 1}).ok());
  EXPECT_TRUE(check_beams({.beams = kMostBeams, .length_penalty = -10.0}).ok());
  for (const int32_t beams : {0, -3, kMostBeams + 1}) {
    const auto refused = check_beams({.beams = beams});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("--beams"));
  }
  for (const double penalty :
       {10.5, -11.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto refused = check_beams({.length_penalty = penalty});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
    EXPECT_THAT(refused.error().message, HasSubstr("--length-penalty"));
  }
}

}  // namespace
}  // namespace quire::engine
