// The plain form of exp stands for the others: elementwise_test proves that all have the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/simd/scalar.h"

#define QUIRE_ISA scalar
#include "kernels/impl/exp.inl"

namespace quire::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float exp_at(float x) {
  return scalar::exp(scalar::broadcast(x)).lane[0];
}

/// Calls visit(x, e^x) for floats spread evenly over all bit patterns between 0 and `limit`.
template <class Visit>
void sweep(float limit, const Visit& visit) {
  const uint32_t last = std::bit_cast<uint32_t>(std::abs(limit));
  constexpr uint32_t kStep = 127;
  for (uint32_t bits = 0; bits <= last; bits += 16 * kStep) {
    scalar::F32x16 x;
    for (uint32_t i = 0; i < 16; ++i) {
      x.lane[i] = std::copysign(std::bit_cast<float>(std::min(bits + i * kStep, last)), limit);
    }
    const scalar::F32x16 y = scalar::exp(x);
    for (int i = 0; i < 16; ++i) visit(x.lane[i], y.lane[i]);
  }
}

double error_in_ulp(float x, float y) {
  const double exact = std::exp(static_cast<double>(x));
  const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
  return std::abs(y - exact) / ulp;
}

TEST(Exp, IsWithinAboutOneUlpOfTheTrueValue) {
  for (const float limit : {-87.33f, 88.0f}) {
    double worst = 0;
    float worst_at = 0;
    sweep(limit, [&](float x, float y) {
      const double error = error_in_ulp(x, y);
      if (error > worst) {
        worst = error;
        worst_at = x;
      }
    });
    EXPECT_LE(worst, 1.1) << "at " << worst_at;
    EXPECT_GT(worst, 0.4) << "the sweep found no error at all";
  }
}

TEST(Exp, IsExactlyOneAtZeroAndExactlyZeroFarBelow) {
  EXPECT_EQ(exp_at(0.0f), 1.0f);
  EXPECT_EQ(exp_at(-0.0f), 1.0f);
  EXPECT_GT(exp_at(-87.33f), 0.0f);
  for (const float x : {-87.34f, -88.0f, -104.0f, -1e5f, -3.4e38f, -kInfinity}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(exp_at(x)), 0u) << x;
  }
}

TEST(Exp, IsNeverSubnormal) {
  sweep(-100.0f, [](float x, float y) {
    ASSERT_TRUE(y == 0.0f || y >= std::numeric_limits<float>::min()) << x << " gives " << y;
  });
}

TEST(Exp, StaysFiniteAboveItsRangeAndKeepsNaN) {
  for (const float x : {88.0f, 88.8f, 1e10f, kInfinity}) EXPECT_EQ(exp_at(x), exp_at(88.0f)) << x;
  EXPECT_TRUE(std::isnan(exp_at(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exp, NeverFallsAsItsArgumentRises) {
  float before_x = -88.0f;
  float before_y = 0.0f;
  for (float x = -88.0f; x < 88.0f; x += 0x1p-12f) {
    const float y = exp_at(x);
    ASSERT_GE(y, before_y) << "from " << before_x << " to " << x;
    before_x = x;
    before_y = y;
  }
}

}  // namespace
}  // namespace quire::kernels
