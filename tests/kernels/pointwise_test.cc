#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A function of single numbers: its kernel and its definition.
struct Pointwise {
  const char* name;
  std::function<void(const KernelSet&, std::vector<float>&)> run;
  double (*exact)(double);
  double relative;  // error allowed, of the result
  double absolute;  // and beside it
};

int64_t count_of(const std::vector<float>& y) {
  return static_cast<int64_t>(y.size());
}

double exact_gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double exact_gelu_erf(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}
double exact_sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double exact_cap(double x) {
  return 30.0 * std::tanh(x / 30.0);
}

const std::vector<Pointwise>& functions() {
  static const std::vector<Pointwise> all = {
      {"gelu_tanh",
       [](const KernelSet& set, std::vector<float>& y) {
         set.gelu_tanh(y.data(), y.data(), count_of(y));
       },
       exact_gelu_tanh, 1e-5, 1e-9},
      {"gelu_erf",
       [](const KernelSet& set, std::vector<float>& y) {
         set.gelu_erf(y.data(), y.data(), count_of(y));
       },
       exact_gelu_erf, 2e-5, 1e-30},
      {"sigmoid",
       [](const KernelSet& set, std::vector<float>& y) { set.sigmoid(y.data(), count_of(y)); },
       exact_sigmoid, 1e-6, 1e-37},
      {"soft_cap",
       [](const KernelSet& set, std::vector<float>& y) {
         set.soft_cap(y.data(), 30.0f, count_of(y));
       },
       exact_cap, 1e-6, 0.0},
  };
  return all;
}

std::vector<float> sweep() {
  std::vector<float> x;
  for (float v = -90.0f; v < 90.0f; v += 0.0137f) x.push_back(v);
  for (float v = 1e-30f; v < 100.0f; v *= 1.7f) {
    x.push_back(v);
    x.push_back(-v);
  }
  return x;
}

TEST(PointwiseFunctions, MatchTheirDefinitions) {
  const std::vector<float> x = sweep();
  for (const Pointwise& f : functions()) {
    SCOPED_TRACE(f.name);
    for (const KernelSet* set : available_sets()) {
      std::vector<float> y = x;
      f.run(*set, y);
      for (size_t i = 0; i < x.size(); ++i) {
        const double exact = f.exact(x[i]);
        ASSERT_NEAR(y[i], exact, f.relative * std::abs(exact) + f.absolute)
            << set->name << " " << x[i];
      }
    }
  }
}

TEST(PointwiseFunctions, TellExactFromTanhGelu) {
  // The largest difference of the two is 4.7e-4: a table of one must not pass for the other.
  std::vector<float> with_erf = sweep();
  std::vector<float> with_tanh = with_erf;
  const KernelSet& set = *available_sets().back();
  set.gelu_erf(with_erf.data(), with_erf.data(), count_of(with_erf));
  set.gelu_tanh(with_tanh.data(), with_tanh.data(), count_of(with_tanh));
  double largest = 0;
  for (size_t i = 0; i < with_erf.size(); ++i) {
    largest = std::max(largest, std::abs(double{with_erf[i]} - with_tanh[i]));
  }
  EXPECT_NEAR(largest, 4.7e-4, 2e-5);
}

TEST(PointwiseFunctions, GiveTheSameBitsOnEveryInstructionSetForAnyCount) {
  std::vector<float> all = sweep();
  for (const float x : {0.0f, -0.0f, kInfinity, -kInfinity, 1e-40f, -1e-40f, 3e38f, -3e38f}) {
    all.push_back(x);
  }
  for (const Pointwise& f : functions()) {
    SCOPED_TRACE(f.name);
    std::vector<float> reference = all;
    f.run(*available_sets().front(), reference);
    for (const KernelSet* set : available_sets()) {
      std::vector<float> y = all;
      f.run(*set, y);
      EXPECT_TRUE(same_bits(y, reference)) << set->name;
      for (size_t count = 0; count <= 40; ++count) {
        std::vector<float> head(all.begin(), all.begin() + static_cast<int64_t>(count));
        f.run(*set, head);
        EXPECT_TRUE(same_bits(head, {reference.data(), count})) << set->name << " " << count;
      }
    }
  }
}

TEST(PointwiseFunctions, StayMeaningfulForExtremeInputs) {
  for (const Pointwise& f : functions()) {
    SCOPED_TRACE(f.name);
    for (const KernelSet* set : available_sets()) {
      std::vector<float> y = {1e4f, 3e38f, kInfinity, -1e4f, -3e38f, -kInfinity, kNaN};
      f.run(*set, y);
      for (size_t i = 3; i < 6; ++i) EXPECT_EQ(std::abs(y[i]), std::abs(y[3])) << i;
      EXPECT_FALSE(std::isnan(y[2]) || std::isnan(y[5]));
      EXPECT_TRUE(std::isnan(y[6])) << "a fault upstream must not become a number";
    }
  }
}

std::vector<float> softmax(const KernelSet& set, std::vector<float> y) {
  set.softmax(y.data(), count_of(y));
  return y;
}

TEST(Softmax, MatchesItsDefinitionForAnyCount) {
  for (int64_t count = 1; count <= 130; ++count) {
    const std::vector<float> x = random_floats(count, 5, 6.0f);
    double total = 0;
    for (const float v : x) total += std::exp(double{v});
    const std::vector<float> reference = softmax(*available_sets().front(), x);
    for (const KernelSet* set : available_sets()) {
      const std::vector<float> y = softmax(*set, x);
      EXPECT_TRUE(same_bits(y, reference)) << set->name << " " << count;
      for (size_t i = 0; i < x.size(); ++i) {
        const double exact = std::exp(double{x[i]}) / total;
        ASSERT_NEAR(y[i], exact, 2e-6 * exact + 1e-30) << set->name << " " << count;
      }
    }
  }
}

TEST(Softmax, OfNegativeNumbersIgnoresWhatPadsTheLastVector) {
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> y = softmax(*set, std::vector<float>(3, -200.0f));
    for (const float p : y) EXPECT_EQ(p, 1.0f / 3.0f) << set->name;
  }
}

TEST(AddScaled, RoundsOnceForAnyCount) {
  for (int64_t count = 0; count <= 70; ++count) {
    const std::vector<float> x = random_floats(count, 6);
    const std::vector<float> y = random_floats(count, 7);
    std::vector<float> sums;
    for (size_t i = 0; i < x.size(); ++i) sums.push_back(std::fma(x[i], 0.3f, y[i]));
    for (const KernelSet* set : available_sets()) {
      std::vector<float> added = y;
      set->add_scaled(x.data(), 0.3f, added.data(), count);
      EXPECT_TRUE(same_bits(added, sums)) << set->name;
    }
  }
}

}  // namespace
}  // namespace quire::kernels
