#include "loadtest/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire::loadtest {
namespace {

CallRecord answered(double sent, double first, double done, int64_t tokens) {
  return {.sent = sent, .first_token = first, .done = done, .output_tokens = tokens};
}

TEST(LoadStatistics, PercentilesAreTheNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Percentiles found = percentiles(values);
  EXPECT_EQ(found.p50, 50.0);
  EXPECT_EQ(found.p90, 90.0);
  EXPECT_EQ(found.p99, 99.0);
  EXPECT_EQ(percentiles({7.0}).p99, 7.0);
  EXPECT_TRUE(std::isnan(percentiles({}).p50));
}

TEST(LoadStatistics, TimeForEachTokenLeavesTheFirstOneOut) {
  EXPECT_EQ(answered(1.0, 1.5, 3.5, 5).tpot(), 0.5);
  EXPECT_EQ(answered(1.0, 1.5, 1.5, 1).tpot(), std::nullopt);
}

TEST(LoadStatistics, GoodputCountsOnlyRequestsThatMeetEveryObjective) {
  const Objectives objectives{.ttft = 1.0, .tpot = 0.1, .e2e = {}, .share = 0.5};
  CallRecord failed{.error = "HTTP 500"};
  const std::vector<CallRecord> records = {answered(0.0, 0.5, 1.0, 11),
                                           answered(0.0, 1.5, 2.0, 11),  // late
                                           answered(0.0, 0.5, 9.5, 11),  // slow
                                           failed};
  const Summary summary = summarize({.concurrency = 4}, records, 10.0, objectives);
  EXPECT_EQ(summary.ok, 3);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.first_error, "HTTP 500");
  EXPECT_DOUBLE_EQ(summary.goodput, 0.1);
  EXPECT_DOUBLE_EQ(summary.requests_per_second, 0.3);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second, 3.3);
  EXPECT_DOUBLE_EQ(summary.objective_share, 0.25);
  EXPECT_FALSE(summary.holds);
}

TEST(LoadStatistics, CachedShareIsOfPromptTokensOfAnsweredRequests) {
  CallRecord one = answered(0.0, 0.1, 0.2, 2);
  one.prompt_tokens = 100;
  one.cached_tokens = 75;
  CallRecord failed = one;
  failed.error = "x";
  const Summary summary = summarize({.concurrency = 1}, std::vector{one, failed}, 1.0, {});
  EXPECT_DOUBLE_EQ(summary.cached_share(), 0.75);
}

Summary at(int64_t concurrency, bool holds) {
  return {.load = {.concurrency = concurrency}, .holds = holds};
}

TEST(LoadStatistics, TheLargestThatHoldsHasNoMissBelowIt) {
  EXPECT_EQ(largest_that_holds(std::vector{at(1, true), at(4, true), at(16, false)}), 4);
  EXPECT_EQ(largest_that_holds(std::vector{at(1, true), at(4, false), at(16, true)}), 1);
  EXPECT_EQ(largest_that_holds(std::vector{at(1, false)}), std::nullopt);
}

TEST(LoadStatistics, TheSearchFindsTheLimitInLogarithmicallyManySteps) {
  for (const int64_t limit : {0, 1, 2, 5, 23, 63, 64}) {
    std::vector<Summary> tried;
    while (const auto next = next_concurrency(tried, 64)) {
      ASSERT_LT(tried.size(), 16u);
      tried.push_back(at(*next, *next <= limit));
    }
    EXPECT_EQ(largest_that_holds(tried).value_or(0), limit);
  }
}

}  // namespace
}  // namespace quire::loadtest
