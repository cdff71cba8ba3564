#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

/// Rows of heads with a rotation by angles[row][i].
struct Rotation {
  Rotation(int32_t rows_, int32_t num_heads_, int32_t head_dim_, int32_t half_)
      : rows(rows_), num_heads(num_heads_), head_dim(head_dim_), half(half_) {
    x = random_floats(int64_t{rows} * num_heads * head_dim, 1);
    for (const float angle : random_floats(int64_t{rows} * half, 2, 3.0f)) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }

  std::vector<float> apply(const KernelSet& set, int64_t row_begin, int64_t row_end) const {
    std::vector<float> y = x;
    const RopeArgs args{.x = y.data(),
                        .x_stride = int64_t{num_heads} * head_dim,
                        .num_heads = num_heads,
                        .head_dim = head_dim,
                        .half = half,
                        .cos = cos.data(),
                        .sin = sin.data()};
    set.rope(args, row_begin, row_end);
    return y;
  }

  std::vector<double> exact() const {
    std::vector<double> y(x.begin(), x.end());
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t head = 0; head < num_heads; ++head) {
        for (int32_t i = 0; i < half; ++i) {
          const size_t at = static_cast<size_t>((row * num_heads + head) * head_dim + i);
          const double c = cos[static_cast<size_t>(row * half + i)];
          const double s = sin[static_cast<size_t>(row * half + i)];
          const double a = x[at];
          const double b = x[at + static_cast<size_t>(half)];
          y[at] = a * c - b * s;
          y[at + static_cast<size_t>(half)] = b * c + a * s;
        }
      }
    }
    return y;
  }

  int32_t rows, num_heads, head_dim, half;
  std::vector<float> x, cos, sin;
};

TEST(Rope, RotatesPairsHalfAHeadApart) {
  for (const int32_t half : {1, 4, 8, 12, 16, 20, 32, 40, 48, 64, 128}) {
    SCOPED_TRACE(half);
    const Rotation rotation(3, 2, 2 * half, half);
    const std::vector<double> exact = rotation.exact();
    for (const KernelSet* set : available_sets()) {
      const std::vector<float> y = rotation.apply(*set, 0, 3);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], exact[i], 1e-6) << set->name << i;
    }
  }
}

TEST(Rope, LeavesTheRestOfAPartlyRotatedHeadAlone) {
  const Rotation rotation(2, 3, 64, 12);
  const std::vector<double> exact = rotation.exact();
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> y = rotation.apply(*set, 0, 2);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], exact[i], 1e-6);
      const bool rotated = i % 64 < 24;
      ASSERT_TRUE(rotated || y[i] == rotation.x[i]) << set->name << " " << i;
    }
  }
}

TEST(Rope, RotatesTheRowsItIsGivenOnly) {
  const Rotation rotation(4, 1, 32, 16);
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> all = rotation.apply(*set, 0, 4);
    const std::vector<float> middle = rotation.apply(*set, 1, 3);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(middle[i], i >= 32 && i < 96 ? all[i] : rotation.x[i]) << i;
    }
  }
}

TEST(Rope, ChangesNothingAtAngleZero) {
  Rotation rotation(1, 2, 80, 40);
  std::fill(rotation.cos.begin(), rotation.cos.end(), 1.0f);
  std::fill(rotation.sin.begin(), rotation.sin.end(), 0.0f);
  for (const KernelSet* set : available_sets()) EXPECT_EQ(rotation.apply(*set, 0, 1), rotation.x);
}

TEST(Rope, GivesTheSameBitsOnEveryInstructionSet) {
  for (const int32_t half : {3, 16, 40, 64}) {
    const Rotation rotation(16, 4, 2 * half + 8, half);
    const std::vector<float> reference = rotation.apply(*available_sets().front(), 0, 16);
    for (const KernelSet* set : available_sets()) {
      EXPECT_TRUE(same_bits(rotation.apply(*set, 0, 16), reference)) << set->name << " " << half;
    }
  }
}

}  // namespace
}  // namespace quire::kernels
