#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "kernels/kernel_set.h"
#include "kernels/matmul_problem.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

constexpr ActivationPolicy kPolicies[] = {ActivationPolicy::kInt8, ActivationPolicy::kF32};

/// The first tokens of a result over more tokens.
std::span<const float> first_tokens(const std::vector<float>& all, int64_t tokens, int64_t rows) {
  return std::span(all).first(static_cast<size_t>(tokens * rows));
}

/// Columns for a small problem: a few blocks, never a multiple of the tiles.
int64_t few_columns(ElementType type) {
  return is_quantized(type) ? 3 * block_columns(type) : 37;
}

class Matmul : public testing::TestWithParam<ElementType> {};

TEST_P(Matmul, GivesTheBitsOfThePlainLoopsForAnyNumberOfTokens) {
  MatmulProblem problem(GetParam(), 37, few_columns(GetParam()), 67, 1);
  for (const ActivationPolicy policy : kPolicies) {
    const std::vector<float> truth = problem.expected(policy);
    for (const KernelSet* set : available_kernels()) {
      for (int64_t tokens = 1; tokens <= 67; ++tokens) {
        EXPECT_TRUE(same_bits(problem.run(*set, policy, tokens), first_tokens(truth, tokens, 37)))
            << set->name << ", " << tokens << " tokens";
      }
    }
  }
}

TEST_P(Matmul, GivesTheBitsOfThePlainLoopsForAnyNumberOfRows) {
  for (int64_t rows = 1; rows <= 66; rows += rows < 34 ? 1 : 8) {
    MatmulProblem problem(GetParam(), rows, block_columns(GetParam()), 5, 2);
    for (const ActivationPolicy policy : kPolicies) {
      const std::vector<float> truth = problem.expected(policy);
      for (const KernelSet* set : available_kernels()) {
        for (const int64_t tokens : {1, 5}) {
          EXPECT_TRUE(
              same_bits(problem.run(*set, policy, tokens), first_tokens(truth, tokens, rows)))
              << set->name << ", " << rows << " rows, " << tokens << " tokens";
        }
      }
    }
  }
}

TEST_P(Matmul, GivesTheBitsOfThePlainLoopsForManyColumns) {
  const int64_t cols = is_quantized(GetParam()) ? 2304 : 2311;
  MatmulProblem problem(GetParam(), 34, cols, 50, 3);
  for (const ActivationPolicy policy : kPolicies) {
    const std::vector<float> truth = problem.expected(policy);
    for (const KernelSet* set : available_kernels()) {
      for (const int64_t tokens : {1, 3, 50}) {
        EXPECT_TRUE(same_bits(problem.run(*set, policy, tokens), first_tokens(truth, tokens, 34)))
            << set->name << ", " << tokens << " tokens";
      }
    }
  }
}

TEST_P(Matmul, GivesTheBitsOfThePlainLoopsForMoreTokensThanPassOverAPanelAtOnce) {
  MatmulProblem problem(GetParam(), 33, block_columns(GetParam()), 520, 7);
  for (const ActivationPolicy policy : kPolicies) {
    const std::vector<float> truth = problem.expected(policy);
    for (const KernelSet* set : available_kernels()) {
      EXPECT_TRUE(same_bits(problem.run(*set, policy, 520), truth)) << set->name;
    }
  }
}

TEST_P(Matmul, GivesTheSameBitsHoweverThePanelsAreDivided) {
  MatmulProblem problem(GetParam(), 16 * 7 + 3, few_columns(GetParam()), 49, 4);
  for (const ActivationPolicy policy : kPolicies) {
    for (const KernelSet* set : available_kernels()) {
      for (const int64_t tokens : {1, 6, 49}) {
        const std::vector<float> whole = problem.run(*set, policy, tokens);
        for (int64_t begin = 0; begin <= problem.num_panels(); ++begin) {
          for (int64_t end = begin; end <= problem.num_panels(); ++end) {
            std::vector<float> parts(whole.size(), std::nanf(""));
            problem.run_into(*set, policy, tokens, Store::kReplace, end, problem.num_panels(),
                             parts);
            problem.run_into(*set, policy, tokens, Store::kReplace, begin, end, parts);
            problem.run_into(*set, policy, tokens, Store::kReplace, 0, begin, parts);
            ASSERT_TRUE(same_bits(parts, whole))
                << set->name << ", panels divided at " << begin << " and " << end;
          }
        }
      }
    }
  }
}

TEST_P(Matmul, AddsToWhatIsThereInOneRounding) {
  MatmulProblem problem(GetParam(), 37, few_columns(GetParam()), 55, 5);
  for (const ActivationPolicy policy : kPolicies) {
    const std::vector<float> product = problem.expected(policy);
    for (const KernelSet* set : available_kernels()) {
      std::vector<float> out(product.size());
      std::vector<float> truth(product.size());
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = std::sin(static_cast<float>(i));
        truth[i] = out[i] + product[i];
      }
      problem.run_into(*set, policy, 55, Store::kAdd, 0, problem.num_panels(), out);
      EXPECT_TRUE(same_bits(out, truth)) << set->name;
    }
  }
}

TEST_P(Matmul, WritesNothingOutsideItsPanelsAndRows) {
  MatmulProblem problem(GetParam(), 16 * 3 + 5, few_columns(GetParam()), 3, 6);
  for (const KernelSet* set : available_kernels()) {
    std::vector<float> out(static_cast<size_t>(3 * problem.rows()), 42.0f);
    problem.run_into(*set, ActivationPolicy::kInt8, 3, Store::kReplace, 1, 2, out);
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t r = 0; r < problem.rows(); ++r) {
        if (r / 16 == 1) continue;
        EXPECT_EQ(out[static_cast<size_t>(t * problem.rows() + r)], 42.0f)
            << set->name << ", row " << r;
      }
    }
  }
}

TEST_P(Matmul, IsCloseToTheProductInDouble) {
  MatmulProblem problem(GetParam(), 40, is_quantized(GetParam()) ? 1024 : 1000, 4, 7);
  const std::vector<double> exact = problem.exact();
  const std::vector<double> magnitude = problem.magnitude();
  for (const ActivationPolicy policy : kPolicies) {
    // One step of an int8 activation is at most max|x| / 127, about 4 sigma / 127, and errors are
    // random.
    const bool floats = activation_form(GetParam(), policy) == ActivationForm::kF32;
    const double tolerance = floats ? 1e-6 : 5e-3;
    const std::vector<float> got = problem.run(*select_kernels("").value(), policy, 4);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], exact[i], tolerance * magnitude[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, Matmul, testing::ValuesIn(kAllTypes),
                         [](const auto& param) { return test_name(param.param); });

}  // namespace
}  // namespace quire::kernels
