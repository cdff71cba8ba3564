// Contexts beyond the trained length: what is pinned by the window, and what the user stretches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/identity.h"
#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kTiny = QUIRE_TEST_DATA "/tiny/";

EngineOptions f32_options() {
  return {.kv = {kv::Codec::F32, kv::Codec::F32}, .activations = kernels::ActivationPolicy::kF32};
}

std::vector<float> logits_of(const Model& model, EngineOptions options,
                             const std::vector<TokenId>& tokens) {
  const auto engine = engine_or_die(model, options);
  Sequence sequence = engine->create_sequence();
  return all_logits(*engine, sequence, tokens, 16);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(LongRope, TakesItsShortFactorsIfTheWindowAskedForIsShort) {
  const TinyModel short_golden{"phi3_long", kTiny + "phi3_long", kTiny + "phi3_long/short.json"};
  const auto model = load_or_die(short_golden.path);
  const Golden golden = read_golden(short_golden);
  EngineOptions options = f32_options();
  options.context_tokens = 64;  // the original length
  const std::vector<float> logits = logits_of(*model, options, golden.tokens);
  EXPECT_LE(worst_share_of_rms(golden, logits), 3e-4);

  options.context_tokens = 65;
  const std::vector<float> with_long_factors = logits_of(*model, options, golden.tokens);
  EXPECT_GT(worst_share_of_rms(golden, with_long_factors), 1e-2) << "both sets of factors agree";
}

TEST(LongRope, NeverLooksAtTheCurrentLength) {
  const auto model = load_or_die(kTiny + "phi3_long");
  const Golden golden = read_golden({"", kTiny + "phi3_long", kTiny + "phi3_long/golden.json"});
  const std::vector<TokenId> start(golden.tokens.begin(), golden.tokens.begin() + 20);
  const std::vector<float> alone = logits_of(*model, {}, start);
  std::vector<float> among_more = logits_of(*model, {}, golden.tokens);
  among_more.resize(alone.size());
  EXPECT_TRUE(same_bits(alone, among_more));
}

/// A copy of a tiny folder with one text of its config.json replaced.
class EditedFolder {
 public:
  EditedFolder(const std::string& name, const std::string& from, const std::string& to)
      : path_(fs::path(testing::TempDir()) /
              ("quire_edited_" + name + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::copy(kTiny + name, path_);
    std::ostringstream text;
    text << std::ifstream(path_ / "config.json").rdbuf();
    std::string config = text.str();
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    std::ofstream(path_ / "config.json") << config.replace(at, from.size(), to);
  }
  ~EditedFolder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::unique_ptr<Model> load_stretched(const std::string& path, const char* stretch) {
  ModelOptions options;
  options.rope_stretch = model::parse_rope_stretch(stretch).value();
  return Model::load(real_file_system(), path, options).value();
}

TEST(RopeScalingOption, EqualsTheScalingThatAFileAsksForBitByBit) {
  // llama_yarn is a model of 64 tokens, stretched four times by its config.json.
  const auto by_file = load_or_die(kTiny + "llama_yarn");
  const EditedFolder plain("llama_yarn", "\"max_position_embeddings\": 256",
                           "\"max_position_embeddings\": 64, \"rope_parameters\": "
                           "{\"rope_type\": \"default\", \"rope_theta\": 10000.0}");
  const auto by_option = load_stretched(plain.path(), "yarn:4");
  ASSERT_EQ(by_option->config().context, 256);
  const Golden golden = read_golden({"", "", kTiny + "llama_yarn/golden.json"});
  EXPECT_TRUE(
      same_bits(logits_of(*by_option, {}, golden.tokens), logits_of(*by_file, {}, golden.tokens)));
  const auto linear = load_stretched(plain.path(), "linear:4");
  EXPECT_FALSE(
      same_bits(logits_of(*linear, {}, golden.tokens), logits_of(*by_file, {}, golden.tokens)));
}

TEST(RotationInTheIdentityKey, FollowsTheSetOfFactorsAndTheStretch) {
  const auto long_rope = load_or_die(kTiny + "phi3_long");
  const auto key_of = [](const Model& model, std::optional<int64_t> context) {
    EngineOptions options;
    options.context_tokens = context;
    return identity_key(model, options);
  };
  const kv::IdentityKey trained = key_of(*long_rope, std::nullopt);
  EXPECT_EQ(kv::first_difference(trained, key_of(*long_rope, 64)), "rope");
  EXPECT_EQ(kv::first_difference(trained, key_of(*long_rope, 65)), std::nullopt);

  const auto unstretched = load_or_die(kTiny + "qwen3");
  const kv::IdentityKey plain = key_of(*unstretched, std::nullopt);
  const auto yarn = load_stretched(kTiny + "qwen3", "yarn:2");
  const auto linear = load_stretched(kTiny + "qwen3", "linear:2");
  EXPECT_EQ(kv::first_difference(plain, key_of(*yarn, std::nullopt)), "rope");
  EXPECT_EQ(kv::first_difference(key_of(*linear, 100), key_of(*yarn, 100)), "rope");
  EXPECT_EQ(kv::first_difference(key_of(*yarn, 100), key_of(*yarn, 200)), std::nullopt);
}

TEST(RopeScalingOption, RefusesModelsWithLearnedPositionsAndThoseScaledAlready) {
  ModelOptions options;
  options.rope_stretch = model::parse_rope_stretch("yarn:2").value();
  const auto learned = Model::load(real_file_system(), kTiny + "gpt2", options);
  ASSERT_FALSE(learned.ok());
  EXPECT_THAT(learned.error().message, HasSubstr("no rotated positions"));
  const auto scaled = Model::load(real_file_system(), kTiny + "llama_yarn", options);
  ASSERT_FALSE(scaled.ok());
  EXPECT_THAT(scaled.error().message, HasSubstr("scaled already"));
}

}  // namespace
}  // namespace quire::engine
