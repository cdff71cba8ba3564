#include "base/integer_math.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(IntegerMath, RoundsUp) {
  EXPECT_EQ(divide_up(0, 64), 0);
  EXPECT_EQ(divide_up(1, 64), 1);
  EXPECT_EQ(divide_up(64, 64), 1);
  EXPECT_EQ(divide_up(65, 64), 2);
  EXPECT_EQ(round_up(65, 64), 128);
}

TEST(LargestThatFits, FindsTheLastNumberThatFits) {
  for (int64_t limit = 0; limit <= 20; ++limit) {
    EXPECT_EQ(largest_that_fits(20, [=](int64_t n) { return n <= limit; }), limit);
  }
  EXPECT_EQ(largest_that_fits(20, [](int64_t) { return false; }), 0);
  EXPECT_EQ(largest_that_fits(0, [](int64_t) { return true; }), 0);
}

}  // namespace
}  // namespace quire
