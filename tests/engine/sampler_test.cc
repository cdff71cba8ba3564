#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "engine/logprobs.h"

namespace quire::engine {
namespace {

// Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625.
const std::vector<float> kLogits = {std::log(0.5f), std::log(0.25f), std::log(0.125f),
                                    std::log(0.0625f), std::log(0.0625f)};

SamplingOptions unfiltered() {
  return {.temperature = 1.0, .top_k = 0, .top_p = 1.0, .min_p = 0.0, .logit_bias = {}};
}

/// How often each token is drawn over many positions.
std::map<int32_t, int> histogram(const SamplingOptions& options, int draws = 20'000) {
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.sample(kLogits, {}, i).value];
  return counts;
}

TEST(Sampler, DrawsTokensAsOftenAsTheirProbabilitySays) {
  const auto counts = histogram(unfiltered());
  EXPECT_NEAR(counts.at(0), 10'000, 300);
  EXPECT_NEAR(counts.at(1), 5'000, 250);
  EXPECT_NEAR(counts.at(4), 1'250, 150);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplingOptions options = unfiltered();
  options.temperature = 0.5;  // squares the probabilities: 0.25 / 0.3359 = 0.744
  EXPECT_NEAR(histogram(options).at(0), 14'884, 300);
}

TEST(Sampler, TemperatureZeroIsTheLowestIdOfTheLargestLogits) {
  SamplingOptions options = unfiltered();
  options.temperature = 0.0;
  Sampler sampler(options);
  const std::vector<float> tie = {0.0f, 2.0f, 2.0f, 1.0f};
  EXPECT_EQ(sampler.sample(tie, {}, 0), TokenId{1});
}

TEST(Sampler, TopKKeepsTheKLikeliest) {
  SamplingOptions options = unfiltered();
  options.top_k = 2;
  const auto counts = histogram(options);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts.at(0), 13'333, 300);  // 0.5 / 0.75
}

TEST(Sampler, TopPKeepsTheFewestTokensThatReachIt) {
  SamplingOptions options = unfiltered();
  options.top_p = 0.7;
  EXPECT_EQ(histogram(options).size(), 2u);
  options.top_p = 0.76;
  EXPECT_EQ(histogram(options).size(), 3u);
}

TEST(Sampler, MinPDropsWhatIsTooFarBehindTheLikeliest) {
  SamplingOptions options = unfiltered();
  options.min_p = 0.2;  // 0.2 * 0.5 = 0.1
  EXPECT_EQ(histogram(options).size(), 3u);
}

TEST(Sampler, FiltersBeforeItAppliesTheTemperature) {
  SamplingOptions options = unfiltered();
  options.temperature = 100.0;
  options.top_p = 0.7;
  EXPECT_EQ(histogram(options).size(), 2u);
}

TEST(Sampler, ADrawDependsOnSeedChoiceAndPositionOnly) {
  Sampler a(unfiltered());
  Sampler b(unfiltered());
  for (int64_t position = 0; position < 50; ++position) a.sample(kLogits, {}, position);
  EXPECT_EQ(a.sample(kLogits, {}, 7), b.sample(kLogits, {}, 7));
  EXPECT_NE(keyed_uniform(0, 0, 7), keyed_uniform(0, 0, 8));
  EXPECT_NE(keyed_uniform(0, 0, 7), keyed_uniform(0, 1, 7));
  EXPECT_NE(keyed_uniform(0, 0, 7), keyed_uniform(1, 0, 7));
}

TEST(Sampler, PenaltiesActOnTokensSeenWithinTheWindow) {
  SamplingOptions options = unfiltered();
  options.temperature = 0.0;
  options.repeat_penalty = 1.5;
  options.penalty_window = 2;
  Sampler sampler(options);
  const std::vector<float> logits = {3.0f, 2.5f, -1.0f};
  const std::vector<TokenId> recent = {TokenId{2}, TokenId{0}};
  EXPECT_EQ(sampler.sample(logits, recent, 2), TokenId{1});  // 3 / 1.5 = 2
  const std::vector<TokenId> long_ago = {TokenId{0}, TokenId{2}, TokenId{2}};
  EXPECT_EQ(sampler.sample(logits, long_ago, 3), TokenId{0});
}

TEST(Sampler, FrequencyCountsEveryOccurrenceAndPresenceOnce) {
  SamplingOptions options = unfiltered();
  options.temperature = 0.0;
  const std::vector<float> logits = {3.0f, 2.0f};
  const std::vector<TokenId> thrice = {TokenId{0}, TokenId{0}, TokenId{0}};
  options.presence_penalty = 0.9;
  EXPECT_EQ(Sampler(options).sample(logits, thrice, 3), TokenId{0});
  options.presence_penalty = 0.0;
  options.frequency_penalty = 0.4;
  EXPECT_EQ(Sampler(options).sample(logits, thrice, 3), TokenId{1});
}

TEST(Sampler, BiasCanForceAndForbid) {
  SamplingOptions options = unfiltered();
  options.logit_bias = {{TokenId{4}, 50.0}};
  EXPECT_EQ(histogram(options).size(), 1u);
  options.logit_bias = {{TokenId{0}, -std::numeric_limits<double>::infinity()}};
  EXPECT_FALSE(histogram(options).contains(0));
}

TEST(Sampler, RefusesSettingsThatMeanNothing) {
  const auto refused = [](auto change) {
    SamplingOptions options;
    change(options);
    return !check_sampling(options, 10).ok();
  };
  EXPECT_TRUE(refused([](auto& o) { o.temperature = -0.1; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = std::nan(""); }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = 0.0; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = 7.0; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_k = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.min_p = 1.5; }));
  EXPECT_TRUE(refused([](auto& o) { o.repeat_penalty = 0.0; }));
  EXPECT_TRUE(refused([](auto& o) { o.frequency_penalty = std::nan(""); }));
  EXPECT_TRUE(refused([](auto& o) { o.logit_bias = {{TokenId{10}, 1.0}}; }));
  EXPECT_TRUE(check_sampling({}, 10).ok());
}

TEST(Logprobs, AreThoseOfTheSoftmax) {
  EXPECT_NEAR(logprob(kLogits, TokenId{1}), std::log(0.25), 1e-6);
  const auto top = top_logprobs(kLogits, 4);
  ASSERT_EQ(top.size(), 4u);
  EXPECT_EQ(top[0].id, TokenId{0});
  EXPECT_EQ(top[3].id, TokenId{3});  // of two alike the lower id
  EXPECT_EQ(top_logprobs(kLogits, 99).size(), kLogits.size());
  EXPECT_EQ(argmax(kLogits), TokenId{0});
}

}  // namespace
}  // namespace quire::engine
