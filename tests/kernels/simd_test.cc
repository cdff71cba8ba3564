// The plain vectors against double precision; the kernels' tests compare the other sets with them.
#include "kernels/simd/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace quire::kernels::scalar {
namespace {

/// IEEE 754 binary16 by its definition.
double half_by_definition(uint16_t h) {
  const int exponent = h >> 10 & 0x1F;
  const int mantissa = h & 0x3FF;
  double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) magnitude = mantissa != 0 ? NAN : INFINITY;
  return h & 0x8000 ? -magnitude : magnitude;
}

TEST(SimdHalf, ConvertsEveryHalfToItsFloatAndBack) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const double exact = half_by_definition(static_cast<uint16_t>(h));
    const float f = half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(f)) << h;
      continue;
    }
    ASSERT_EQ(f, exact) << h;
    ASSERT_EQ(float_to_half(f), h);
  }
}

TEST(SimdHalf, RoundsWhatLiesBetweenTwoHalvesToTheNearerOrTheEvenOne) {
  for (uint32_t h = 0; h < 0x7BFF; ++h) {
    const double below = half_by_definition(static_cast<uint16_t>(h));
    const double above = half_by_definition(static_cast<uint16_t>(h + 1));
    const float middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(float_to_half(middle), h + (h & 1)) << h;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), h);
    ASSERT_EQ(float_to_half(std::nextafter(middle, INFINITY)), h + 1);
    ASSERT_EQ(float_to_half(-middle), 0x8000 | (h + (h & 1)));
  }
  EXPECT_EQ(float_to_half(65519.99f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
}

TEST(SimdVectors, LoadAndStoreTheFirstLanesOnly) {
  for (int count = 0; count <= 16; ++count) {
    float from[16];
    for (int i = 0; i < 16; ++i) from[i] = static_cast<float>(i + 1);
    const F32x16 loaded = load_first(from, count);
    float to[16] = {};
    store_first(to, load(from), count);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(loaded.lane[i], i < count ? from[i] : 0.0f);
      EXPECT_EQ(to[i], i < count ? from[i] : 0.0f);
    }
  }
}

TEST(SimdVectors, MaskTheLanesBetweenBoundsThatMayLieOutside) {
  for (int begin = -20; begin <= 20; ++begin) {
    for (int end = -20; end <= 20; ++end) {
      const F32x16 chosen = select(lanes_between(begin, end), broadcast(1.0f), zero());
      for (int i = 0; i < 16; ++i) {
        ASSERT_EQ(chosen.lane[i], i >= begin && i < end ? 1.0f : 0.0f) << begin << " " << end;
      }
    }
  }
}

TEST(SimdVectors, SumLanesInTheFixedTree) {
  F32x16 a = zero();
  a.lane[0] = 0x1p24f;
  a.lane[8] = 1.0f;  // lost: 2^24 + 1 rounds to even
  a.lane[4] = 1.0f;
  a.lane[12] = 1.0f;  // kept: met its partner first
  EXPECT_EQ(sum(a), 0x1p24f + 2.0f);
}

TEST(SimdVectors, TakeTheSecondOperandOfMinAndMaxForNaN) {
  const F32x16 nan = broadcast(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(max(nan, broadcast(1.0f)).lane[3], 1.0f);
  EXPECT_EQ(min(nan, broadcast(1.0f)).lane[3], 1.0f);
  EXPECT_TRUE(std::isnan(max(broadcast(1.0f), nan).lane[3]));
  EXPECT_TRUE(std::isnan(min(broadcast(1.0f), nan).lane[3]));
}

TEST(SimdVectors, MakePowersOfTwo) {
  for (int n = -126; n <= 127; ++n) {
    EXPECT_EQ(exp2_int(to_int(broadcast(static_cast<float>(n)))).lane[7], std::ldexp(1.0f, n));
  }
}

}  // namespace
}  // namespace quire::kernels::scalar
