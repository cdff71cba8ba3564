#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

struct Problem {
  Problem(int64_t cols, float mean) : x(random_floats(3 * cols, 1, 2.0f)) {
    weight = random_floats(cols, 2);
    bias = random_floats(cols, 3);
    for (float& number : x) number += mean;
  }

  int64_t cols() const { return static_cast<int64_t>(weight.size()); }

  std::vector<float> run(const KernelSet& set) const {
    std::vector<float> y(x.size(), 7.0f);
    set.layer_norm(args(x.data(), y.data(), cols()), 0, 3);
    return y;
  }

  LayerNormArgs args(const float* from, float* to, int64_t stride) const {
    return {.x = from,
            .x_stride = stride,
            .weight = weight.data(),
            .bias = bias.data(),
            .eps = 1e-5f,
            .cols = cols(),
            .y = to,
            .y_stride = stride};
  }

  double exact(int64_t row, int64_t col) const {
    const double n = static_cast<double>(cols());
    double mean = 0;
    double squares = 0;
    for (int64_t c = 0; c < cols(); ++c) mean += at(row, c) / n;
    for (int64_t c = 0; c < cols(); ++c) squares += std::pow(at(row, c) - mean, 2);
    const auto i = static_cast<size_t>(col);
    return (at(row, col) - mean) / std::sqrt(squares / n + 1e-5) * weight[i] + bias[i];
  }
  double at(int64_t row, int64_t col) const { return x[static_cast<size_t>(row * cols() + col)]; }

  std::vector<float> x, weight, bias;
};

TEST(LayerNorm, MatchesItsDefinitionForAnyNumberOfColumns) {
  for (int64_t cols = 2; cols <= 70; ++cols) {
    const Problem problem(cols, 0.5f);
    for (const KernelSet* set : available_sets()) {
      const std::vector<float> y = problem.run(*set);
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t c = 0; c < cols; ++c) {
          ASSERT_NEAR(y[static_cast<size_t>(row * cols + c)], problem.exact(row, c), 1e-5)
              << set->name << " " << cols;
        }
      }
    }
  }
}

TEST(LayerNorm, KeepsItsDigitsWhenTheMeanIsLarge) {
  const Problem problem(100, 1000.0f);
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> y = problem.run(*set);
    for (int64_t c = 0; c < 100; ++c) {
      EXPECT_NEAR(y[static_cast<size_t>(c)], problem.exact(0, c), 1e-3) << set->name;
    }
  }
}

TEST(LayerNorm, GivesTheSameBitsOnEveryInstructionSet) {
  for (const int64_t cols : {1, 15, 16, 17, 100, 576, 1543}) {
    const Problem problem(cols, 0.3f);
    const std::vector<float> reference = problem.run(*available_sets().front());
    for (const KernelSet* set : available_sets()) {
      EXPECT_TRUE(same_bits(problem.run(*set), reference)) << set->name << " " << cols;
    }
  }
}

TEST(LayerNorm, WorksInPlaceOnTheRowsItIsGivenOnly) {
  for (const KernelSet* set : available_sets()) {
    const Problem problem(37, 0.0f);
    std::vector<float> rows = random_floats(4 * 40, 6);  // stride 40, columns 37
    const std::vector<float> before = rows;
    set->layer_norm(problem.args(rows.data(), rows.data(), 40), 1, 3);
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool inside = i >= 40 && i < 120 && i % 40 < 37;
      EXPECT_EQ(rows[i] != before[i], inside) << i;
    }
  }
}

TEST(LayerNorm, OfEqualNumbersIsTheBias) {
  Problem problem(64, 0.0f);
  std::fill(problem.x.begin(), problem.x.end(), 3.0f);
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> y = problem.run(*set);
    EXPECT_TRUE(same_bits({y.data(), 64}, problem.bias)) << set->name;
  }
}

}  // namespace
}  // namespace quire::kernels
