#include "engine/logit_compare.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace quire::engine {
namespace {

TEST(KlDivergence, IsExactlyZeroForEqualLogits) {
  const std::array<float, 4> logits = {0.1f, -3.0f, 12.0f, 7.5f};
  EXPECT_EQ(kl_divergence(logits, logits), 0.0);
}

TEST(KlDivergence, FollowsTheFormula) {
  // p = (1/2, 1/2), q = (3/4, 1/4).
  const std::array<float, 2> p = {0.0f, 0.0f};
  const std::array<float, 2> q = {std::log(3.0f), 0.0f};
  EXPECT_NEAR(kl_divergence(p, q), 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-7);
}

TEST(LogitComparison, NoticesASingleBit) {
  const std::array<float, 3> a = {1.0f, 0.0f, 2.0f};
  std::array<float, 3> b = a;
  LogitComparison comparison;
  comparison.add(a, b);
  EXPECT_TRUE(comparison.identical());
  b[1] = -0.0f;  // equal as a number, not as bits
  comparison.add(a, b);
  EXPECT_FALSE(comparison.identical());
  EXPECT_EQ(comparison.first_difference()->row, 1);
  EXPECT_EQ(comparison.first_difference()->token, 1);
  EXPECT_EQ(comparison.max_abs_diff(), 0.0);
}

TEST(LogitComparison, CountsRowsThatAgreeOnTheLikeliestToken) {
  const std::array<float, 2> a = {1.0f, 0.0f};
  const std::array<float, 2> b = {0.0f, 1.0f};
  LogitComparison comparison;
  for (int i = 0; i < 3; ++i) comparison.add(a, a);
  comparison.add(a, b);
  EXPECT_DOUBLE_EQ(comparison.top1_agreement(), 0.75);
  EXPECT_EQ(comparison.max_abs_diff(), 1.0);
}

TEST(LogitComparison, TakesTheRankThatCoversNinetyNinePercent) {
  LogitComparison comparison;
  const std::array<float, 2> even = {0.0f, 0.0f};
  for (int i = 1; i <= 100; ++i) {
    const std::array<float, 2> skewed = {static_cast<float>(i) * 0.01f, 0.0f};
    comparison.add(even, skewed);
  }
  const std::array<float, 2> ninety_ninth = {99.0f * 0.01f, 0.0f};
  EXPECT_DOUBLE_EQ(comparison.kl_p99(), kl_divergence(even, ninety_ninth));
  EXPECT_GT(comparison.kl_max(), comparison.kl_p99());
  EXPECT_LT(comparison.kl_mean(), comparison.kl_p99());
}

TEST(LogitComparison, IsCalmWithoutRows) {
  const LogitComparison comparison;
  EXPECT_TRUE(comparison.identical());
  EXPECT_EQ(comparison.kl_p99(), 0.0);
  EXPECT_EQ(comparison.top1_agreement(), 1.0);
}

}  // namespace
}  // namespace quire::engine
