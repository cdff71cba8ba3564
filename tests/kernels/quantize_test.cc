#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "kernels/activations.h"
#include "kernels/kernel_set.h"
#include "kernels/matmul_problem.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

/// Rows of very different sizes, with zeros, a block of zeros and numbers halfway between two
/// steps.
std::vector<float> varied_rows(int64_t rows, int64_t cols) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t block = i / 32;
    const float size = std::ldexp(1.0f, static_cast<int>(block * 7 % 60) - 30);
    x[i] = block % 11 == 5 ? 0.0f : size * normal(random);
    if (block % 5 == 2) {  // steps of exactly 2^-3: halves are ties
      x[i] = static_cast<float>(static_cast<int>(random() % 509) - 254) / 16.0f;
      if (i % 32 == 0) x[i] = 127.0f / 8.0f;
    }
  }
  return x;
}

struct Quantized {
  float d;
  std::vector<int> q;
};

/// The definition: q = round half to even of x * (127 / max|x|), d = max|x| / 127.
Quantized by_definition(std::span<const float> x) {
  float max = 0;
  for (const float v : x) max = std::max(max, std::fabs(v));
  Quantized out{max >= 0x1p-100f ? max / 127.0f : 0.0f, {}};
  const float inverse = max >= 0x1p-100f ? 127.0f / max : 0.0f;
  for (const float v : x) out.q.push_back(static_cast<int>(std::nearbyint(v * inverse)));
  return out;
}

int sum_of(std::span<const int> q) {
  int sum = 0;
  for (const int v : q) sum += v;
  return sum;
}

TEST(Quantize, FollowsItsDefinitionPer32OnEverySet) {
  const int64_t rows = 5;
  const int64_t cols = 576;
  const std::vector<float> x = varied_rows(rows, cols);
  for (const KernelSet* set : available_kernels()) {
    Activations out = Activations::allocate(rows, cols).value();
    set->quantize_per_32(x.data(), cols, out, 0, rows);
    for (int64_t b = 0; b < rows * cols / 32; ++b) {
      const Quantized truth = by_definition(std::span(x).subspan(static_cast<size_t>(b * 32), 32));
      const ActivationBlock& block = out.blocks32()[b];
      EXPECT_EQ(block.scale, truth.d);
      EXPECT_EQ(block.total, sum_of(truth.q));
      EXPECT_EQ(block.sum, truth.d * static_cast<float>(sum_of(truth.q)));
      for (size_t i = 0; i < 32; ++i) {
        ASSERT_EQ(out.q32()[static_cast<size_t>(b) * 32 + i], truth.q[i]) << set->name;
      }
    }
  }
}

TEST(Quantize, FollowsItsDefinitionPer256OnEverySet) {
  const int64_t rows = 3;
  const int64_t cols = 768;
  const std::vector<float> x = varied_rows(rows, cols);
  for (const KernelSet* set : available_kernels()) {
    Activations out = Activations::allocate(rows, cols).value();
    set->quantize_per_256(x.data(), cols, out, 0, rows);
    for (int64_t b = 0; b < rows * cols / 256; ++b) {
      const Quantized truth =
          by_definition(std::span(x).subspan(static_cast<size_t>(b * 256), 256));
      EXPECT_EQ(out.scales256()[b], truth.d);
      for (size_t i = 0; i < 256; ++i) {
        ASSERT_EQ(out.q256()[static_cast<size_t>(b) * 256 + i], truth.q[i]) << set->name;
      }
      for (size_t s = 0; s < 16; ++s) {
        EXPECT_EQ(out.sums16()[static_cast<size_t>(b) * 16 + s],
                  sum_of(std::span(truth.q).subspan(16 * s, 16)));
      }
    }
  }
}

TEST(Quantize, TouchesOnlyItsRowsAndReadsThemAtTheirStride) {
  const int64_t cols = 256;
  const std::vector<float> x = varied_rows(4, cols);
  std::vector<float> strided(4 * 300, 1e9f);
  for (size_t r = 0; r < 4; ++r) {
    std::copy_n(x.begin() + static_cast<int64_t>(r) * cols, cols, strided.begin() + r * 300);
  }
  for (const KernelSet* set : available_kernels()) {
    Activations all = Activations::allocate(4, cols).value();
    set->quantize_per_32(x.data(), cols, all, 0, 4);
    set->quantize_per_256(x.data(), cols, all, 0, 4);
    Activations some = Activations::allocate(4, cols).value();
    set->quantize_per_32(strided.data(), 300, some, 1, 3);
    set->quantize_per_256(strided.data(), 300, some, 1, 3);
    for (int64_t i = 0; i < 4 * cols; ++i) {
      const bool in_rows = i / cols == 1 || i / cols == 2;
      ASSERT_EQ(some.q32()[i], in_rows ? all.q32()[i] : 0) << set->name;
      ASSERT_EQ(some.q256()[i], in_rows ? all.q256()[i] : 0) << set->name;
    }
  }
}

TEST(Quantize, SurvivesSubnormalsAndWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet* set : available_kernels()) {
    for (const float odd : {kInfinity, -kInfinity, kNaN, 1e-42f, 3e38f}) {
      std::vector<float> x(256, 0.5f);
      x[7] = odd;
      Activations out = Activations::allocate(1, 256).value();
      set->quantize_per_32(x.data(), 256, out, 0, 1);
      set->quantize_per_256(x.data(), 256, out, 0, 1);
      for (int i = 0; i < 256; ++i) {
        EXPECT_GE(out.q32()[i], -127) << set->name;
        EXPECT_GE(out.q256()[i], -127) << set->name;
      }
      EXPECT_EQ(out.q32()[32], 127) << "the next block is as if nothing had happened";
    }
    std::vector<float> tiny(256, 1e-42f);
    Activations out = Activations::allocate(1, 256).value();
    set->quantize_per_32(tiny.data(), 256, out, 0, 1);
    EXPECT_EQ(out.q32()[0], 0);
    EXPECT_EQ(out.blocks32()[0].scale, 0.0f);
  }
}

TEST(ActivationForms, FollowFromTypeAndPolicy) {
  using enum ActivationForm;
  EXPECT_EQ(activation_form(ElementType::BF16, ActivationPolicy::kInt8), kF32);
  EXPECT_EQ(activation_form(ElementType::Q8_0, ActivationPolicy::kInt8), kInt8Per32);
  EXPECT_EQ(activation_form(ElementType::Q6_K, ActivationPolicy::kInt8), kInt8Per256);
  EXPECT_EQ(activation_form(ElementType::Q6_K, ActivationPolicy::kF32), kF32);
}

TEST(ActivationForms, AreMadeOnlyWhereBlocksFit) {
  Activations x = Activations::allocate(2, 96).value();
  const ActivationView view = x.view(2);
  EXPECT_NE(view.f32, nullptr);
  EXPECT_NE(view.q32, nullptr);
  EXPECT_EQ(view.q256, nullptr);
  EXPECT_EQ(Activations::allocate(2, 33).value().view(2).q32, nullptr);
}

}  // namespace
}  // namespace quire::kernels
