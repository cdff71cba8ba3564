// What a configuration leaves out or contradicts is named, never guessed in silence; what is no
// decoder is refused by name.
#include <gmock/gmock.h>

#include "plan/families.h"
#include "plan/plan_testing.h"

namespace quire::plan {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kLlama =
    R"({"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":4,)"
    R"("num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000,)"
    R"("max_position_embeddings":2048,"tie_word_embeddings":false)";

/// The small llama with further or other members; the last of equal keys wins.
Result<ModelShape> llama_with(std::string_view members) {
  std::string json(kLlama);
  if (!members.empty()) json += ",";
  return shape_of(json + std::string(members) + "}");
}

void expect_refused(const Result<ModelShape>& result, ErrorCode code, std::string_view sentence) {
  ASSERT_FALSE(result.ok()) << "should say: " << sentence;
  EXPECT_EQ(result.error().code, code);
  EXPECT_THAT(result.error().message, HasSubstr(std::string(sentence)));
}

TEST(Config, OfAPlainLlamaIsReadWithoutNotes) {
  const ModelShape shape = llama_with("").value();
  EXPECT_EQ(shape.layers.size(), 4u);
  EXPECT_EQ(shape.layers.front().num_kv_heads, 2);
  EXPECT_EQ(shape.layers.front().key_dim, 64);
  EXPECT_TRUE(shape.notes.empty());
}

TEST(Config, NamesAMissingKey) {
  expect_refused(shape_of(R"({"model_type":"llama","hidden_size":512})"), ErrorCode::kBadFile,
                 "num_hidden_layers is missing, and llama implies no default");
  expect_refused(shape_of(R"({"hidden_size":512})"), ErrorCode::kBadFile, "model_type is missing");
  expect_refused(llama_with(R"("model_type":"deepseek_v3")"), ErrorCode::kBadFile,
                 "kv_lora_rank is missing");
  expect_refused(llama_with(R"("num_hidden_layers":null)"), ErrorCode::kBadFile,
                 "num_hidden_layers is missing");
}

TEST(Config, NamesAWrongTypeOrSize) {
  expect_refused(llama_with(R"("hidden_size":"wide")"), ErrorCode::kBadFile,
                 "hidden_size should be a whole number");
  expect_refused(llama_with(R"("hidden_size":-512)"), ErrorCode::kBadFile, "but is -512");
  expect_refused(llama_with(R"("hidden_size":0)"), ErrorCode::kBadFile, "but is 0");
  expect_refused(llama_with(R"("num_hidden_layers":1e30)"), ErrorCode::kBadFile,
                 "num_hidden_layers should be a whole number from 1 to 4,096");
  expect_refused(llama_with(R"("head_dim":[64])"), ErrorCode::kBadFile, "but is a list");
  expect_refused(llama_with(R"("tie_word_embeddings":"yes")"), ErrorCode::kBadFile,
                 "tie_word_embeddings should be true or false");
  EXPECT_TRUE(llama_with(R"("hidden_size":512.0)").ok()) << "some exporters write floats";
}

TEST(Config, NamesContradictions) {
  expect_refused(llama_with(R"("num_key_value_heads":3)"), ErrorCode::kBadFile,
                 "8 heads cannot share 3 kv heads evenly");
  expect_refused(llama_with(R"("hidden_size":513)"), ErrorCode::kBadFile,
                 "hidden_size 513 is no multiple of 8 heads");
  expect_refused(llama_with(R"("layer_types":["full_attention"])"), ErrorCode::kBadFile,
                 "layer_types does not name each of 4 layers");
  expect_refused(
      llama_with(R"("layer_types":["full_attention","full_attention","full_attention","magic"])"),
      ErrorCode::kUnsupported, "'magic'");
  expect_refused(llama_with(R"("model_type":"gemma3n_text","intermediate_size":1024,)"
                            R"("num_kv_shared_layers":9)"),
                 ErrorCode::kBadFile, "num_kv_shared_layers 9 leaves none of 4 layers");
}

TEST(Config, OfWhatIsNoDecoderIsRefusedByName) {
  expect_refused(shape_of(R"({"model_type":"t5","d_model":512})"), ErrorCode::kUnsupported,
                 "t5 is an encoder-decoder");
  expect_refused(shape_of(R"({"model_type":"whisper"})"), ErrorCode::kUnsupported,
                 "whisper is an encoder-decoder");
  expect_refused(llama_with(R"("is_encoder_decoder":true)"), ErrorCode::kUnsupported,
                 "encoder-decoder");
  expect_refused(shape_of(R"({"model_type":"bert"})"), ErrorCode::kUnsupported,
                 "bert is an encoder");
  expect_refused(shape_of(R"({"model_type":"frobnicator"})"), ErrorCode::kUnsupported,
                 "model_type 'frobnicator' is not known here; known: apertus, arcee");
  expect_refused(shape_of("[1,2]"), ErrorCode::kBadFile, "no JSON object");
}

TEST(Config, OfAnAbsurdlyLargeModelIsRefused) {
  expect_refused(llama_with(R"("hidden_size":4194304,"intermediate_size":4194304,)"
                            R"("num_hidden_layers":4096,"num_attention_heads":16384,)"
                            R"("num_key_value_heads":16384,"head_dim":65536)"),
                 ErrorCode::kBadFile, "larger than 10^16 parameters");
}

TEST(Config, CountsAWindowOnlyWhereItCloses) {
  const ModelShape shape =
      llama_with(R"("model_type":"phi3","sliding_window":2048,"num_key_value_heads":8)").value();
  EXPECT_EQ(shape.layers.front().window_tokens, 0);
  ASSERT_FALSE(shape.notes.empty());
  EXPECT_THAT(shape.notes.front(), HasSubstr("never closes within 2,048"));
  const ModelShape closing =
      llama_with(R"("model_type":"phi3","sliding_window":2047,"num_key_value_heads":8)").value();
  EXPECT_EQ(closing.layers.front().window_tokens, 2047);
}

TEST(Config, OfQwenUsesItsWindowOnlyWhenItSaysSo) {
  const auto windows = [](std::string_view more) {
    const ModelShape shape =
        llama_with(std::string(R"("model_type":"qwen2","sliding_window":100)") + std::string(more))
            .value();
    std::vector<int32_t> out;
    for (const LayerCache& layer : shape.layers) out.push_back(layer.window_tokens);
    return out;
  };
  EXPECT_THAT(windows(""), ::testing::ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(windows(R"(,"use_sliding_window":true,"max_window_layers":3)"),
              ::testing::ElementsAre(0, 0, 0, 100));
}

TEST(Config, LetsLayerTypesWinOverAPattern) {
  const ModelShape shape =
      llama_with(R"("model_type":"gemma3_text","sliding_window":64,"sliding_window_pattern":2,)"
                 R"("layer_types":["full_attention","sliding_attention","sliding_attention",)"
                 R"("full_attention"])")
          .value();
  std::vector<int32_t> windows;
  for (const LayerCache& layer : shape.layers) windows.push_back(layer.window_tokens);
  EXPECT_THAT(windows, ::testing::ElementsAre(0, 64, 64, 0));
}

TEST(Config, GivesLayersThatShareKeysNoRowsOfTheirOwn) {
  const ModelShape shape =
      llama_with(R"("model_type":"gemma4_text","head_dim":64,"global_head_dim":128,)"
                 R"("num_kv_shared_layers":2,"sliding_window":64,)"
                 R"("layer_types":["sliding_attention","full_attention","sliding_attention",)"
                 R"("full_attention"])")
          .value();
  EXPECT_EQ(shape.layers[0].key_dim, 64);
  EXPECT_EQ(shape.layers[1].key_dim, 128);
  EXPECT_EQ(shape.layers[2], LayerCache{});
  EXPECT_EQ(shape.layers[3], LayerCache{});
}

TEST(Config, IsFoundInsideTheConfigurationOfAMultimodalModel) {
  const auto json = R"({"model_type":"llava","tie_word_embeddings":true,"text_config":)" +
                    std::string(kLlama.substr(0, kLlama.rfind(','))) +
                    R"(},"vision_config":{"hidden_size":7}})";
  const ModelShape shape = shape_of(json).value();
  EXPECT_EQ(shape.family, "llama");
  EXPECT_EQ(shape.layers.size(), 4u);
  EXPECT_THAT(shape.notes.back(), HasSubstr("towers are left out"));
  for (const Weight& weight : shape.weights) EXPECT_NE(weight.role, WeightRole::kHead) << "tied";
}

TEST(Config, OfMetaAndMistralIsReadByItsOwnKeys) {
  const ModelShape llama3 = shape_of(R"({"dim":4096,"n_layers":32,"n_heads":32,"n_kv_heads":8,)"
                                     R"("vocab_size":128256,"ffn_dim_multiplier":1.3,)"
                                     R"("multiple_of":1024,"norm_eps":1e-05})")
                                .value();
  EXPECT_EQ(llama3.parameters(), 8'030'261'248);
  const ModelShape mixtral =
      shape_of(R"({"dim":4096,"n_layers":32,"head_dim":128,"hidden_dim":14336,"n_heads":32,)"
               R"("n_kv_heads":8,"vocab_size":32000,"moe":{"num_experts_per_tok":2,)"
               R"("num_experts":8}})")
          .value();
  EXPECT_EQ(mixtral.parameters(), 46'702'792'704);
}

TEST(Config, IsKnownForManyFamilies) {
  EXPECT_GE(known_families().size(), 80u);
}

}  // namespace
}  // namespace quire::plan
