#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Every count up to 70, to meet each possible tail, and one that is large.
std::vector<int64_t> counts() {
  std::vector<int64_t> all;
  for (int64_t count = 0; count <= 70; ++count) all.push_back(count);
  all.push_back(1543);
  return all;
}

std::vector<float> rms_norm(const KernelSet& set, const std::vector<float>& x,
                            const std::vector<float>& weight) {
  const int64_t cols = static_cast<int64_t>(weight.size());
  std::vector<float> y(x.size(), 7.0f);
  const RmsNormArgs args{.x = x.data(),
                         .x_stride = cols,
                         .weight = weight.data(),
                         .eps = 1e-5f,
                         .cols = cols,
                         .y = y.data(),
                         .y_stride = cols};
  set.rms_norm(args, 0, static_cast<int64_t>(x.size()) / cols);
  return y;
}

TEST(RmsNorm, MatchesItsDefinitionForAnyNumberOfColumns) {
  for (const int64_t cols : counts()) {
    if (cols == 0) continue;
    const std::vector<float> x = random_floats(2 * cols, 1, 3.0f);
    const std::vector<float> weight = random_floats(cols, 2);
    for (const KernelSet* set : available_sets()) {
      const std::vector<float> y = rms_norm(*set, x, weight);
      for (int64_t row = 0; row < 2; ++row) {
        double squares = 0;
        for (int64_t c = 0; c < cols; ++c) squares += std::pow(double{x[row * cols + c]}, 2);
        const double rms = std::sqrt(squares / static_cast<double>(cols) + 1e-5);
        for (int64_t c = 0; c < cols; ++c) {
          const double exact = x[row * cols + c] / rms * weight[c];
          ASSERT_NEAR(y[row * cols + c], exact, 1e-6 * std::abs(exact)) << set->name << " " << cols;
        }
      }
    }
  }
}

TEST(RmsNorm, GivesTheSameBitsOnEveryInstructionSet) {
  for (const int64_t cols : {1, 15, 16, 17, 100, 576, 1543}) {
    const std::vector<float> x = random_floats(5 * cols, 3, 3.0f);
    const std::vector<float> weight = random_floats(cols, 4);
    const std::vector<float> reference = rms_norm(*available_sets().front(), x, weight);
    for (const KernelSet* set : available_sets()) {
      EXPECT_TRUE(same_bits(rms_norm(*set, x, weight), reference)) << set->name << " " << cols;
    }
  }
}

TEST(RmsNorm, WorksInPlaceOnTheRowsItIsGivenOnly) {
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> weight = random_floats(37, 5);
    std::vector<float> rows = random_floats(4 * 40, 6);  // stride 40, columns 37
    const std::vector<float> before = rows;
    const RmsNormArgs args{.x = rows.data(),
                           .x_stride = 40,
                           .weight = weight.data(),
                           .eps = 1e-6f,
                           .cols = 37,
                           .y = rows.data(),
                           .y_stride = 40};
    set->rms_norm(args, 1, 3);
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool inside = i >= 40 && i < 120 && i % 40 < 37;
      EXPECT_EQ(rows[i] != before[i], inside) << i;
    }
  }
}

TEST(RmsNorm, OfZerosIsZero) {
  for (const KernelSet* set : available_sets()) {
    for (const float y : rms_norm(*set, std::vector<float>(64), std::vector<float>(64, 1.0f))) {
      EXPECT_EQ(y, 0.0f);
    }
  }
}

/// A gated activation of the set: out = f(gate) * up.
using Gated = decltype(KernelSet::swiglu);

std::vector<float> apply(Gated gated, const std::vector<float>& gate,
                         const std::vector<float>& up) {
  std::vector<float> out(gate.size() + 1, 7.0f);
  gated(gate.data(), up.data(), out.data(), static_cast<int64_t>(gate.size()));
  EXPECT_EQ(out.back(), 7.0f) << "written beyond the end";
  out.pop_back();
  return out;
}

double exact_silu(double x) {
  return x / (1.0 + std::exp(-x));
}
double exact_gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(GatedActivations, MatchTheirDefinitionsForAnyCount) {
  for (const int64_t count : counts()) {
    const std::vector<float> gate = random_floats(count, 7, 3.0f);
    const std::vector<float> up = random_floats(count, 8);
    for (const KernelSet* set : available_sets()) {
      const std::vector<float> silu = apply(set->swiglu, gate, up);
      const std::vector<float> gelu = apply(set->geglu_tanh, gate, up);
      for (size_t i = 0; i < gate.size(); ++i) {
        const double s = exact_silu(gate[i]) * up[i];
        const double g = exact_gelu_tanh(gate[i]) * up[i];
        ASSERT_NEAR(silu[i], s, 1e-6 * std::abs(s)) << set->name << " " << gate[i];
        // The argument of e grows with the cube of x, and so does its rounding.
        ASSERT_NEAR(gelu[i], g, 1e-5 * std::abs(g) + 1e-9) << set->name << " " << gate[i];
      }
    }
  }
}

TEST(GatedActivations, StayMeaningfulForExtremeInputs) {
  const std::vector<float> gate = {-100.0f, -1e4f, -3e38f, -kInfinity, 100.0f, 3e38f, kNaN, -0.0f};
  const std::vector<float> up(gate.size(), 1.0f);
  for (const KernelSet* set : available_sets()) {
    for (const Gated gated : {set->swiglu, set->geglu_tanh}) {
      const std::vector<float> out = apply(gated, gate, up);
      for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], 0.0f, 1e-35f) << gate[i];
      EXPECT_EQ(out[4], 100.0f);
      EXPECT_EQ(out[5], 3e38f);
      EXPECT_TRUE(std::isnan(out[6]));
      EXPECT_EQ(out[7], 0.0f);
    }
  }
}

TEST(GatedActivations, GiveTheSameBitsOnEveryInstructionSet) {
  std::vector<float> gate = random_floats(20000, 9, 4.0f);
  for (float x = -100.0f; x < 100.0f; x += 0.013f) gate.push_back(x);
  for (const float x : {0.0f, -0.0f, kInfinity, -kInfinity, 1e-40f, -1e-40f, 3e38f, -3e38f}) {
    gate.push_back(x);
  }
  const std::vector<float> up = random_floats(static_cast<int64_t>(gate.size()), 10);
  const KernelSet& plain = *available_sets().front();
  const std::vector<float> silu = apply(plain.swiglu, gate, up);
  const std::vector<float> gelu = apply(plain.geglu_tanh, gate, up);
  for (const KernelSet* set : available_sets()) {
    EXPECT_TRUE(same_bits(apply(set->swiglu, gate, up), silu)) << set->name;
    EXPECT_TRUE(same_bits(apply(set->geglu_tanh, gate, up), gelu)) << set->name;
  }
}

TEST(GatedActivations, DoNotDependOnWhereANumberStands) {
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> gate = random_floats(100, 11, 3.0f);
    const std::vector<float> up = random_floats(100, 12);
    const std::vector<float> together = apply(set->swiglu, gate, up);
    for (size_t i = 0; i < gate.size(); ++i) {
      EXPECT_TRUE(same_bits(apply(set->swiglu, {gate[i]}, {up[i]}), {&together[i], 1}));
    }
  }
}

TEST(AddAndScale, RoundOnceForAnyCount) {
  for (const int64_t count : counts()) {
    const std::vector<float> x = random_floats(count, 13);
    const std::vector<float> y = random_floats(count, 14);
    std::vector<float> sums;
    std::vector<float> products;
    for (size_t i = 0; i < x.size(); ++i) {
      sums.push_back(y[i] + x[i]);
      products.push_back(y[i] * 0.3f);
    }
    for (const KernelSet* set : available_sets()) {
      std::vector<float> added = y;
      set->add(x.data(), added.data(), count);
      EXPECT_TRUE(same_bits(added, sums)) << set->name;
      std::vector<float> scaled = y;
      set->scale(scaled.data(), 0.3f, count);
      EXPECT_TRUE(same_bits(scaled, products)) << set->name;
    }
  }
}

}  // namespace
}  // namespace quire::kernels
