// What is pointed at is told by content.
#include "plan/source.h"

#include <gmock/gmock.h>

#include "formats/gguf_builder.h"
#include "formats/memory_file_system.h"
#include "plan/cache_plan.h"
#include "plan/plan_testing.h"

namespace quire::plan {
namespace {

using formats::GgufBuilder;
using formats::MemoryFileSystem;
using ::testing::HasSubstr;

/// The keys of a model of four layers; tensors are added by the tests.
GgufBuilder header(const std::string& architecture) {
  GgufBuilder builder;
  builder.string("general.architecture", architecture)
      .number<uint32_t>(architecture + ".block_count", 4)
      .number<uint32_t>(architecture + ".embedding_length", 64)
      .number<uint32_t>(architecture + ".feed_forward_length", 128)
      .number<uint32_t>(architecture + ".context_length", 4096)
      .number<uint32_t>(architecture + ".attention.head_count", 4);
  return builder;
}

Result<ModelShape> shape_of_header(const GgufBuilder& builder) {
  MemoryFileSystem files;
  files.put("/model", builder.build());
  return shape_of_path(files, "/model");
}

std::vector<int32_t> windows_of(const ModelShape& shape) {
  std::vector<int32_t> windows;
  for (const LayerCache& layer : shape.layers) windows.push_back(layer.window_tokens);
  return windows;
}

TEST(Source, IsAGgufHeaderWithoutAnyTensor) {
  const ModelShape shape =
      shape_of_header(header("llama").number<uint32_t>("llama.attention.head_count_kv", 2)).value();
  EXPECT_EQ(CachePlan(shape, {}, {}).bytes_per_token(), 4 * 2 * 16 * 2 * 2);
  EXPECT_EQ(shape.context, 4096);
  EXPECT_FALSE(shape.stored.has_value());
}

TEST(Source, ReadsHeadsLayerByLayer) {
  const ModelShape shape = shape_of_header(header("openelm").numbers<int32_t>(
                                               "openelm.attention.head_count_kv", {1, 2, 4, 0}))
                               .value();
  EXPECT_EQ(CachePlan(shape, {}, {}).bytes_per_token(), (1 + 2 + 4) * 16 * 2 * 2);
}

TEST(Source, ReadsWindowsByTheRuleOfTheArchitecture) {
  const auto windows = [](const std::string& architecture) {
    return windows_of(
        shape_of_header(
            header(architecture).number<uint32_t>(architecture + ".attention.sliding_window", 128))
            .value());
  };
  EXPECT_THAT(windows("gpt-oss"), ::testing::ElementsAre(128, 0, 128, 0));
  EXPECT_THAT(windows("cohere2"), ::testing::ElementsAre(128, 128, 128, 0));
  EXPECT_THAT(windows("phi3"), ::testing::ElementsAre(128, 128, 128, 128));
  EXPECT_THAT(windows("qwen2"), ::testing::ElementsAre(0, 0, 0, 0));
  const ModelShape flags =
      shape_of_header(
          header("gemma3n")
              .number<uint32_t>("gemma3n.attention.sliding_window", 128)
              .numbers<bool>("gemma3n.attention.sliding_window_pattern", {true, false, true, true}))
          .value();
  EXPECT_THAT(windows_of(flags), ::testing::ElementsAre(128, 0, 128, 128));
}

TEST(Source, SeesLatentRowsAndStatesInTheTensors) {
  GgufBuilder latent = header("deepseek2")
                           .number<uint32_t>("deepseek2.attention.kv_lora_rank", 32)
                           .number<uint32_t>("deepseek2.rope.dimension_count", 8);
  for (int layer = 0; layer < 4; ++layer) {
    latent.tensor({"blk." + std::to_string(layer) + ".attn_kv_a_mqa.weight",
                   {64, 40},
                   0,
                   std::string(64 * 40 * 4, 'x')});
  }
  EXPECT_EQ(CachePlan(shape_of_header(latent).value(), {}, {}).bytes_per_token(), 4 * 40 * 2);

  GgufBuilder hybrid = header("granitehybrid")
                           .number<uint32_t>("granitehybrid.ssm.conv_kernel", 4)
                           .number<uint32_t>("granitehybrid.ssm.inner_size", 128)
                           .number<uint32_t>("granitehybrid.ssm.state_size", 16);
  hybrid.tensor({"blk.0.attn_k.weight", {64, 64}, 0, std::string(64 * 64 * 4, 'k')});
  for (int layer = 1; layer < 4; ++layer) {
    hybrid.tensor({"blk." + std::to_string(layer) + ".ssm_conv1d.weight",
                   {4, 160},
                   0,
                   std::string(4 * 160 * 4, 's')});
  }
  const CachePlan cache(shape_of_header(hybrid).value(), {}, {});
  EXPECT_EQ(cache.bytes_per_token(), 4 * 16 * 2 * 2);
  EXPECT_EQ(cache.fixed_bytes(), 3 * (128 * 16 * 4 + 160 * 3 * 2));
}

TEST(Source, RefusesEncodersAndTheUnknownByName) {
  const auto sentence = [](const std::string& architecture) {
    return shape_of_header(header(architecture)).error().message;
  };
  EXPECT_THAT(sentence("t5"), HasSubstr("t5 is an encoder-decoder"));
  EXPECT_THAT(sentence("bert"), HasSubstr("bert is an encoder"));
  EXPECT_THAT(sentence("frob"), HasSubstr("architecture 'frob' is not known"));
}

TEST(Source, NamesMissingAndAbsurdKeysOfAHeader) {
  GgufBuilder empty;
  empty.string("general.architecture", "llama");
  EXPECT_THAT(shape_of_header(empty).error().message, HasSubstr("llama.block_count"));
  const auto with_kv = [](int32_t kv_heads) {
    return shape_of_header(
        header("llama").number<int32_t>("llama.attention.head_count_kv", kv_heads));
  };
  EXPECT_THAT(with_kv(3).error().message, HasSubstr("3 kv heads"));
  EXPECT_THAT(with_kv(-3).error().message, HasSubstr("llama.attention.head_count_kv is -3"));
  EXPECT_FALSE(shape_of_header(
                   header("llama").number<uint32_t>("llama.attention.key_length", 4'000'000'000u))
                   .ok());
}

TEST(Source, IsAnyJsonWhateverItsName) {
  MemoryFileSystem files;
  files.put("/x", "\xef\xbb\xbf\n" + published_config("gpt2").dump());
  EXPECT_EQ(shape_of_path(files, "/x").value().parameters(), 124'439'808);
  files.put("/y", "no JSON at all");
  EXPECT_THAT(shape_of_path(files, "/y").error().message,
              HasSubstr("/y is neither a GGUF file nor a JSON configuration"));
  files.put("/z", "{\"model_type\": ");
  EXPECT_EQ(shape_of_path(files, "/z").error().code, ErrorCode::kBadFile);
  files.put("/empty", "");
  EXPECT_EQ(shape_of_path(files, "/empty").error().code, ErrorCode::kBadFile);
}

TEST(Source, IsBareNumbersThatMakeSense) {
  BareNumbers numbers{.layers = 28, .kv_heads = 4, .head_dim = 128};
  EXPECT_EQ(shape_of_numbers(numbers).value().layers.size(), 28u);
  numbers.heads = 6;
  EXPECT_THAT(shape_of_numbers(numbers).error().message, HasSubstr("--heads 6"));
  numbers.heads = 28;
  numbers.kv_heads = std::nullopt;
  EXPECT_THAT(shape_of_numbers(numbers).error().message, HasSubstr("--kv-heads is missing"));
  // Qwen2.5-7B by hand, but for its biases and norms.
  const ModelShape qwen = shape_of_numbers({.layers = 28,
                                            .kv_heads = 4,
                                            .head_dim = 128,
                                            .heads = 28,
                                            .hidden = 3584,
                                            .ffn = 18944,
                                            .vocab = 152064})
                              .value();
  EXPECT_NEAR(static_cast<double>(qwen.parameters()), 7.07e9, 0.01e9);
  const ModelShape hybrid =
      shape_of_numbers(
          {.layers = 26, .kv_heads = 1, .head_dim = 256, .window = 512, .window_every = 6})
          .value();
  EXPECT_EQ(CachePlan(hybrid, {}, {}).fixed_bytes(), 11'534'336);
}

}  // namespace
}  // namespace quire::plan
