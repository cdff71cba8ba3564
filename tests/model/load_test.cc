// What is wrong with a model's files is said in one sentence that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file_system.h"
#include "model/weights.h"

namespace quire::model {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// A copy of a tiny Hugging Face model in which texts can be replaced.
class EditedModel {
 public:
  explicit EditedModel(const std::string& name)
      : folder_(fs::path(testing::TempDir()) /
                ("quire_" + name + std::to_string(::getpid()) + "_" + std::to_string(counter_++))) {
    fs::remove_all(folder_);
    fs::copy(fs::path(QUIRE_TEST_DATA "/tiny") / name, folder_);
  }
  ~EditedModel() { fs::remove_all(folder_); }

  /// Replaces every `from`, which must occur. The lengths may differ in config.json only.
  EditedModel& replace(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read(folder_ / file);
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    for (; at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    std::ofstream(folder_ / file, std::ios::binary) << text;
    return *this;
  }

  /// The sentence that loading it ends with; empty if it loads.
  std::string problem() const {
    const auto files = formats::ModelFiles::open(real_file_system(), folder_.string());
    if (!files.ok()) return files.error().message;
    const auto described = describe(*files);
    if (!described.ok()) return described.error().message;
    const auto weights = load_weights(*files, *described, nullptr);
    return weights.ok() ? "" : weights.error().message;
  }

 private:
  fs::path folder_;
  static inline int counter_ = 0;
};

TEST(LoadModel, TakesTheModelAsItIs) {
  EXPECT_EQ(EditedModel("llama_tied").problem(), "");
}

TEST(LoadModel, NamesAnUnknownArchitectureAndThoseItKnows) {
  EditedModel model("llama_tied");
  model.replace("config.json", "\"model_type\": \"llama\"", "\"model_type\": \"lama\"");
  EXPECT_THAT(model.problem(), HasSubstr("'lama'"));
  for (const Architecture* known : architectures()) {
    EXPECT_THAT(model.problem(), HasSubstr(std::string(known->name)));
  }
}

TEST(LoadModel, NamesAMissingTensor) {
  EditedModel model("llama_tied");
  model.replace("model.safetensors", "model.layers.1.mlp.up_proj.weight",
                "model.layers.1.mlp.uq_proj.weight");
  EXPECT_THAT(model.problem(), HasSubstr("model.layers.1.mlp.up_proj.weight is missing"));
}

TEST(LoadModel, RefusesATensorThatItWouldIgnore) {
  // A bias has no place in llama as we run it: its model would be computed wrong without a word.
  EditedModel model("llama_untied");
  model.replace("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_EQ(model.problem(), "");  // a tied head may lie around
  EditedModel gemma("gemma3");
  gemma.replace("config.json", "gemma3_text", "llama");
  EXPECT_NE(gemma.problem(), "");
}

TEST(LoadModel, NamesShapesThatContradictTheNumbers) {
  EditedModel model("llama_tied");
  model.replace("config.json", "\"intermediate_size\": ", "\"intermediate_size\": 1");
  EXPECT_THAT(model.problem(), HasSubstr("mlp."));
  EXPECT_THAT(model.problem(), HasSubstr("has shape ["));
}

TEST(LoadModel, NamesMissingAndMistypedNumbers) {
  EditedModel missing("llama_tied");
  missing.replace("config.json", "num_hidden_layers", "num_hidden_lawyers");
  EXPECT_THAT(missing.problem(), HasSubstr("has no num_hidden_layers"));
  EditedModel mistyped("llama_tied");
  mistyped.replace("config.json",
                   "\"num_attention_heads\": ", "\"num_attention_heads\": 0.5, \"x\": ");
  EXPECT_THAT(mistyped.problem(), HasSubstr("num_attention_heads should be a 32-bit integer"));
}

TEST(LoadModel, RefusesNumbersThatNoModelHas) {
  for (const char* value : {"0", "-1", "2147483647", "5"}) {
    EditedModel model("llama_tied");
    model.replace("config.json", "\"num_key_value_heads\": ",
                  std::string("\"num_key_value_heads\": ") + value + ", \"x\": ");
    EXPECT_NE(model.problem(), "") << value;
  }
}

TEST(LoadModel, RefusesRopeScalingItDoesNotRun) {
  EditedModel model("llama3_rope");
  model.replace("config.json", "\"rope_type\": \"llama3\"", "\"rope_type\": \"dynamic\"");
  EXPECT_THAT(model.problem(), HasSubstr("'dynamic'"));
}

TEST(LoadModel, RefusesWhatAnArchitectureCanBeToldButIsNotRun) {
  const auto refused = [](const char* name, const char* from, const char* to) {
    return EditedModel(name).replace("config.json", from, to).problem();
  };
  EXPECT_THAT(refused("falcon", "\"alibi\": false", "\"alibi\": true"), HasSubstr("alibi"));
  EXPECT_THAT(refused("gpt2", "gelu_new", "relu"), HasSubstr("activation_function 'relu'"));
  EXPECT_THAT(refused("qwen2", "\"silu\"", "\"relu2\""), HasSubstr("hidden_act 'relu2'"));
  EXPECT_THAT(refused("qwen3moe", "\"use_sliding_window\": false", "\"use_sliding_window\": true"),
              HasSubstr("use_sliding_window"));
  EXPECT_THAT(refused("gemma2_scalar", "full_attention", "chunked_attention"),
              HasSubstr("chunked_attention"));
}

TEST(LoadModel, RefusesExpertsThatCannotBe) {
  for (const char* per_token : {"0", "-1", "9", "1000000"}) {
    EditedModel model("qwen3moe");
    model.replace("config.json", "\"num_experts_per_tok\": 3",
                  std::string("\"num_experts_per_tok\": ") + per_token);
    EXPECT_THAT(model.problem(), HasSubstr("of 8 experts")) << per_token;
  }
  EditedModel fewer("qwen3moe");
  fewer.replace("config.json", "\"num_experts\": 8", "\"num_experts\": 7");
  EXPECT_THAT(fewer.problem(), HasSubstr("mlp.gate.weight has shape [8, 64]"));
}

TEST(LoadModel, MissesABiasThatTheFirstLayerHas) {
  EditedModel model("llama_linear");
  model.replace("model.safetensors", "layers.1.self_attn.q_proj.bias",
                "layers.1.self_attn.q_proj.bits");
  EXPECT_THAT(model.problem(), HasSubstr("layers.1.self_attn.q_proj.bias is missing"));
}

TEST(LoadModel, NamesLongRopeFactorsOfTheWrongNumber) {
  EditedModel model("phi3_long");
  model.replace("config.json", "\"short_factor\": [", "\"short_factor\": [1.0,");
  EXPECT_THAT(model.problem(), HasSubstr("9 RoPE frequency factors for 8"));
}

TEST(LoadModel, StopsWhenAskedTo) {
  const std::string path = QUIRE_TEST_DATA "/tiny/llama_tied";
  const auto files = formats::ModelFiles::open(real_file_system(), path);
  ASSERT_TRUE(files.ok());
  const auto stopped = load_weights(*files, *describe(*files), [](double) { return false; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
}

TEST(LoadModel, CountsParametersOfBothKindsOfFile) {
  const auto gguf =
      formats::ModelFiles::open(real_file_system(), QUIRE_TEST_DATA "/tiny/llama3_gguf/f16.gguf");
  ASSERT_TRUE(gguf.ok());
  const auto described = describe(*gguf);
  ASSERT_TRUE(described.ok());
  const ModelConfig& c = described->config;
  const int64_t layer = int64_t{c.hidden} * (2 * c.q_width() + 2 * c.kv_width() + 3 * c.ffn + 2);
  EXPECT_EQ(count_parameters(*gguf), int64_t{c.vocab} * c.hidden + c.num_layers * layer + c.hidden);
}

}  // namespace
}  // namespace quire::model
