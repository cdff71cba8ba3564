#include "plan/weight_types.h"

#include <gtest/gtest.h>

#include "plan/plan_testing.h"

namespace quire::plan {
namespace {

struct PublishedSize {
  const char* mix;
  double gib;
};

// Sizes of Llama 3 8B in every type: llama.cpp, tools/perplexity/README.md.
constexpr PublishedSize kLlama3[] = {
    {"f16", 14.97},   {"q8_0", 7.96},   {"q6_k", 6.14},   {"q5_k_m", 5.33}, {"q5_k_s", 5.21},
    {"q5_1", 5.65},   {"q5_0", 5.21},   {"q4_k_m", 4.58}, {"q4_k_s", 4.37}, {"q4_1", 4.78},
    {"q4_0", 4.34},   {"iq4_nl", 4.35}, {"iq4_xs", 4.14}, {"q3_k_l", 4.03}, {"q3_k_m", 3.74},
    {"q3_k_s", 3.41}, {"q2_k", 2.96},
};

TEST(WeightTypes, WeighWhatIsPublishedForLlama3) {
  const ModelShape shape = published_shape("llama-3.1-8b");
  for (const PublishedSize& published : kLlama3) {
    const double gib =
        static_cast<double>(mixed_bytes(shape, *find_weight_mix(published.mix)).file) / 0x1p30;
    EXPECT_NEAR(gib, published.gib, 0.01 * published.gib) << published.mix;
  }
}

TEST(WeightTypes, AreFoundInAnyCaseAndByOtherNames) {
  EXPECT_EQ(find_weight_mix("Q4_K_M")->name, "q4_k_m");
  EXPECT_EQ(find_weight_mix("fp16")->name, "f16");
  EXPECT_EQ(find_weight_mix("q5_k")->name, "q5_k_m");
  EXPECT_EQ(find_weight_mix("q9_z"), nullptr);
}

TEST(WeightTypes, FallBackWhereRowsAreNoWholeNumberOfBlocks) {
  // 896 columns are no multiple of 256: K-quants become blocks of 32.
  ModelShape shape;
  shape.layers.resize(32);
  shape.weights = {{.role = WeightRole::kUp, .rows = 100, .cols = 896, .layer = 20}};
  EXPECT_EQ(mixed_bytes(shape, *find_weight_mix("q4_k_m")).file, 100 * 28 * 22);  // q5_0
  EXPECT_EQ(mixed_bytes(shape, *find_weight_mix("q6_k")).file, 100 * 28 * 34);    // q8_0
  shape.weights.front().cols = 40;
  EXPECT_EQ(mixed_bytes(shape, *find_weight_mix("q4_k_m")).file, 100 * 40 * 2);  // f16
}

TEST(WeightTypes, AreLaidOutInPanelsInMemory) {
  // 20 rows take two panels of 16; a block of q4_k is 148 bytes in memory, 144 in a file.
  const WeightBytes bytes = matrix_bytes(ElementType::Q4_K, 20, 256);
  EXPECT_EQ(bytes.file, 20 * 144);
  EXPECT_EQ(bytes.loaded, 32 * 148);
}

TEST(WeightTypes, ArePricedForEveryMixAndModel) {
  for (const char* name : {"gpt2", "gpt-oss-20b", "deepseek-v3", "qwen3-next-80b-a3b", "lfm2-1.2b",
                           "mixtral-8x7b", "gemma-3n-e4b"}) {
    const ModelShape shape = published_shape(name);
    const int64_t half = mixed_bytes(shape, *find_weight_mix("f16")).file;
    for (const WeightMix& mix : weight_mixes()) {
      const WeightBytes bytes = mixed_bytes(shape, mix);
      EXPECT_GT(bytes.file, shape.parameters() / 6) << name << " " << mix.name;
      if (mix.name == "f32") continue;
      EXPECT_LE(bytes.file, half) << name << " " << mix.name;
    }
  }
}

}  // namespace
}  // namespace quire::plan
