#include "engine/describe.h"

#include <gmock/gmock.h>

namespace quire::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

ModelDescription describe_tiny(const std::string& name) {
  auto described =
      describe_model(real_file_system(), std::string(QUIRE_TEST_DATA) + "/tiny/" + name);
  EXPECT_TRUE(described.ok()) << described.error().message;
  return *std::move(described);
}

TEST(DescribeModel, FindsNothingWrongWithASoundModel) {
  const ModelDescription d = describe_tiny("llama_tied");
  EXPECT_EQ(d.format, "huggingface");
  EXPECT_EQ(d.architecture, "llama");
  ASSERT_TRUE(d.config.has_value());
  EXPECT_EQ(d.config->context, 512);
  EXPECT_EQ(d.sampling.temperature, 0.6);
  EXPECT_THAT(d.tokenizer->ends, ElementsAre("<|endoftext|>", "<|im_end|>"));
  EXPECT_THAT(d.warnings, IsEmpty());
}

TEST(DescribeModel, CountsTensorsByType) {
  const ModelDescription d = describe_tiny("llama_gguf/split-00001-of-00003.gguf");
  EXPECT_EQ(d.format, "gguf");
  EXPECT_EQ(d.files.size(), 3u);
  EXPECT_THAT(d.tensors, ElementsAre(Pair("f32", 5), Pair("q4_0", 16)));
}

TEST(DescribeModel, WarnsOfASecondBosToken) {
  EXPECT_THAT(describe_tiny("gemma3").warnings, ElementsAre(HasSubstr("prints the BOS token")));
}

TEST(DescribeModel, RefusesWhatIsNoModel) {
  EXPECT_FALSE(describe_model(real_file_system(), QUIRE_TEST_DATA "/tiny").ok());
}

}  // namespace
}  // namespace quire::engine
