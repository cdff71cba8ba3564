#include "model/gated_product.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/huge_buffer.h"
#include "model/matmul_group.h"

namespace quire::model {
namespace {

using kernels::ActivationPolicy;

constexpr int64_t kHidden = 64;

Linear random_linear(ElementType type, int64_t rows, int64_t cols, std::mt19937_64& random) {
  std::vector<std::byte> stored(*stored_bytes(type, static_cast<uint64_t>(rows * cols)));
  for (std::byte& b : stored) b = static_cast<std::byte>(random() & 0x1F);  // small finite scales
  Linear linear;
  linear.matrix =
      kernels::WeightMatrix::pack({.type = type, .rows = rows, .cols = cols, .stored = stored})
          .value();
  return linear;
}

FfnWeights random_weights(ElementType type, int64_t ffn, ElementType down = ElementType::Q8_0) {
  std::mt19937_64 random(7);
  FfnWeights w;
  w.gate = random_linear(type, ffn, kHidden, random);
  w.up = random_linear(type, ffn, kHidden, random);
  w.down = random_linear(down, 16, ffn, random);
  return w;
}

kernels::Activations random_rows(int64_t rows) {
  kernels::Activations x = kernels::Activations::allocate(rows, kHidden).value();
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * kHidden; ++i) x.f32()[i] = normal(random);
  kernels::select_kernels("").value()->quantize_per_32(x.f32(), kHidden, x, 0, rows);
  return x;
}

/// One step after the other, over all rows.
kernels::Activations one_after_the_other(const FfnWeights& w, FfnActivation activation,
                                         kernels::Activations& x, int64_t rows) {
  const kernels::KernelSet& kernels = *kernels::select_kernels("").value();
  const int64_t ffn = w.up.matrix.rows();
  std::vector<float> gate(static_cast<size_t>(rows * ffn));
  std::vector<float> up(gate.size());
  const auto multiply = [&](const Linear& linear, std::vector<float>& out) {
    kernels.matmul({.weights = &linear.matrix,
                    .x = x.view(rows),
                    .policy = ActivationPolicy::kInt8,
                    .out = out.data(),
                    .out_stride = ffn},
                   0, linear.matrix.num_panels());
  };
  multiply(w.gate, gate);
  multiply(w.up, up);
  kernels::Activations out = kernels::Activations::allocate(rows, ffn).value();
  const auto activate = activation == FfnActivation::kSwiGlu ? kernels.swiglu : kernels.geglu_tanh;
  activate(gate.data(), up.data(), out.f32(), rows * ffn);
  kernels.quantize_per_32(out.f32(), ffn, out, 0, rows);
  return out;
}

void expect_same_form(kernels::Activations& a, kernels::Activations& b, int64_t rows) {
  const int64_t count = rows * a.cols();
  EXPECT_EQ(std::vector<int8_t>(a.q32(), a.q32() + count),
            std::vector<int8_t>(b.q32(), b.q32() + count));
  for (int64_t i = 0; i < count / 32; ++i) {
    ASSERT_EQ(a.blocks32()[i].scale, b.blocks32()[i].scale) << "block " << i;
    ASSERT_EQ(a.blocks32()[i].sum, b.blocks32()[i].sum) << "block " << i;
    ASSERT_EQ(a.blocks32()[i].total, b.blocks32()[i].total) << "block " << i;
  }
}

TEST(GatedProduct, GivesTheBitsOfItsStepsOneAfterTheOther) {
  for (const ElementType type : {ElementType::Q4_1, ElementType::Q8_0, ElementType::Q5_0}) {
    for (const int64_t ffn : {32, 96, 192}) {
      const FfnWeights w = random_weights(type, ffn);
      for (const int64_t rows : {48, 61, 517, 1040}) {
        for (const FfnActivation activation : {FfnActivation::kSwiGlu, FfnActivation::kGeGluTanh}) {
          kernels::Activations x = random_rows(rows);
          kernels::Activations truth = one_after_the_other(w, activation, x, rows);
          for (const int32_t threads : {1, 3}) {
            SCOPED_TRACE(std::string(info(type).name) + ", ffn " + std::to_string(ffn) + ", " +
                         std::to_string(rows) + " rows, " + std::to_string(threads) + " threads");
            ThreadPool pool(threads);
            kernels::Activations got = kernels::Activations::allocate(rows, ffn).value();
            multiply_gated(*kernels::select_kernels("").value(), pool,
                           {w, activation, x, rows, ActivationPolicy::kInt8, got});
            expect_same_form(got, truth, rows);
          }
        }
      }
    }
  }
}

TEST(GatedProduct, SuitsManyRowsWhoseResultIsReadInTheFormPer32Only) {
  const auto suits = [](const FfnWeights& w, int64_t rows,
                        FfnActivation activation = FfnActivation::kSwiGlu,
                        ActivationPolicy policy = ActivationPolicy::kInt8) {
    return suits_gated_product(w, activation, policy, rows);
  };
  const FfnWeights w = random_weights(ElementType::Q4_1, 256);
  EXPECT_TRUE(suits(w, 48));
  EXPECT_FALSE(suits(w, 47));
  EXPECT_FALSE(suits(w, 48, FfnActivation::kGeluTanh)) << "has no gate";
  EXPECT_FALSE(suits(w, 48, FfnActivation::kSwiGlu, ActivationPolicy::kF32));
  EXPECT_FALSE(suits(random_weights(ElementType::Q4_1, 256, ElementType::Q4_K), 48));
  EXPECT_FALSE(suits(random_weights(ElementType::Q4_1, 256, ElementType::F16), 48));
  FfnWeights biased = random_weights(ElementType::Q4_1, 256);
  biased.up.bias.assign(256, 1.0f);
  EXPECT_FALSE(suits(biased, 48));
}

}  // namespace
}  // namespace quire::model
