// Configurations as their makers published them give the parameters and the caches that are known.
#include <gmock/gmock.h>

#include <cmath>
#include <ostream>

#include "base/file_system.h"
#include "plan/cache_plan.h"
#include "plan/families.h"
#include "plan/plan_testing.h"

namespace quire::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::TestWithParam;
using ::testing::ValuesIn;

struct Published {
  const char* name;
  int64_t parameters;
};

void PrintTo(const Published& p, std::ostream* out) {
  *out << p.name;
}

std::string test_name(const char* name) {
  std::string out;
  for (const char* c = name; *c != '\0'; ++c) {
    out += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  }
  return out;
}

// Totals of the published weights; of the text model where there are towers beside it, without the
// layers that draft further tokens.
constexpr Published kPublished[] = {
    {"gpt2", 124439808},
    {"gpt2-xl", 1557611200},
    {"smollm2-135m", 134515008},
    {"llama-2-7b", 6738415616},
    {"llama-3.2-1b", 1235814400},
    {"llama-3.1-8b", 8030261248},
    {"llama-3.1-70b", 70553706496},
    {"mistral-7b-v0.1", 7241732096},
    {"mistral-7b-v0.3", 7248023552},
    {"mistral-nemo-12b", 12247782400},
    {"mixtral-8x7b", 46702792704},
    {"qwen2.5-0.5b", 494032768},
    {"qwen2.5-7b", 7615616512},
    {"qwen2-57b-a14b", 57409110528},
    {"qwen3-0.6b", 596049920},
    {"qwen3-30b-a3b", 30532122624},
    {"smollm3-3b", 3075098624},
    {"phi-2", 2779683840},
    {"phi-3-mini-128k", 3821079552},
    {"phi-3-mini-4k", 3821079552},
    {"phi-4-mini", 3836021760},
    {"phi-3.5-moe", 41873153344},
    {"falcon-7b", 6922015616},
    {"falcon-40b", 41302212608},
    {"starcoder", 15517456384},
    {"starcoder2-3b", 3030371328},
    {"gemma-2b", 2506172416},
    {"gemma-2-9b", 9241705984},
    {"gemma-3-1b", 999885952},
    {"gemma-3-4b", 3880099328},
    {"gemma-3-27b", 27009002240},
    {"gemma-3n-e4b", 6869387008},
    {"olmo-2-7b", 7298633728},
    {"olmoe-1b-7b", 6919161856},
    {"granite-3.1-8b", 8170848256},
    {"gpt-oss-20b", 20914757184},
    {"llama-4-scout", 107769861120},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v3", 671026419200},
    {"kimi-k2", 1026408225792},
    {"qwen3-next-80b-a3b", 79674391296},
    {"jamba-v0.1", 51570323328},
    {"mamba-codestral-7b", 7285403648},
    {"mamba-130m", 129135360},
    {"granite-4.0-h-tiny", 6939037248},
    {"lfm2-1.2b", 1170340608},
    {"falcon-h1-0.5b", 521411104},
    {"kimi-linear-48b-a3b", 49122681728},
    {"recurrentgemma-2b", 2682862080},
    {"minimax-text-01", 456089655296},
    {"gpt-neox-20b", 20554567680},
    {"opt-1.3b", 1315758080},
    {"bloom-560m", 559214592},
    {"mpt-7b", 6649286656},
    {"gpt-j-6b", 6050882784},
    {"gpt-neo-1.3b", 1315575808},
    {"cohere2-command-r7b", 8027834368},
    {"stablelm-2-1.6b", 1644515328},
    {"glm-4-9b", 9399951360},
    {"glm-4.5-air", 106852245504},
};

class PublishedModel : public TestWithParam<Published> {};

TEST_P(PublishedModel, HasItsParametersWithinAPercent) {
  const ModelShape shape = published_shape(GetParam().name);
  const auto published = static_cast<double>(GetParam().parameters);
  EXPECT_NEAR(static_cast<double>(shape.parameters()), published, 0.01 * published);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedModel, ValuesIn(kPublished),
                         [](const auto& test) { return test_name(test.param.name); });

TEST(PublishedModels, HaveTheParametersThatTransformersCounts) {
  const std::string path = QUIRE_TEST_DATA "/plan/golden/parameters.json";
  const auto counts =
      formats::Json::parse(real_file_system().read(path, 1 << 20).value(), path).value();
  ASSERT_GE(counts.as_object()->size(), 60u);
  for (const auto& [name, count] : *counts.as_object()) {
    // Terms that balance experts are weights in files and buffers in transformers.
    const int64_t buffers = 1 << 15;
    EXPECT_NEAR(static_cast<double>(published_shape(name).parameters()),
                static_cast<double>(*count.as_int()), buffers)
        << name;
  }
}

struct CacheTruth {
  const char* name;
  int64_t bytes_per_token;
  int64_t fixed_bytes;
};

void PrintTo(const CacheTruth& truth, std::ostream* out) {
  *out << truth.name;
}

constexpr int64_t kQwen3NextState = 72 << 20;
constexpr int64_t kQwen3NextConvolutions = 36 * 8192 * 3 * 2;

constexpr CacheTruth kTruths[] = {
    {"gpt2", 36'864, 0},
    {"smollm2-135m", 23'040, 0},
    {"llama-2-7b", 524'288, 0},
    {"llama-3.2-1b", 32'768, 0},
    {"llama-3.1-8b", 131'072, 0},
    {"mistral-7b-v0.3", 131'072, 0},
    {"llama-3.1-70b", 327'680, 0},
    {"qwen2.5-0.5b", 12'288, 0},
    {"qwen2.5-7b", 57'344, 0},
    {"qwen3-0.6b", 114'688, 0},
    {"phi-3-mini-128k", 393'216, 0},
    {"phi-3-mini-4k", 0, 804'913'152},
    {"mistral-7b-v0.1", 0, 536'870'912},
    {"falcon-7b", 8'192, 0},
    {"falcon-40b", 122'880, 0},
    {"starcoder", 20'480, 0},
    {"gemma-3-1b", 4'096, 11'534'336},
    {"gemma-3-4b", 20'480, 121'634'816},
    {"gemma-3-27b", 81'920, 436'207'616},
    {"gpt-oss-20b", 24'576, 3'145'728},
    {"deepseek-v3", 70'272, 0},
    {"qwen3-next-80b-a3b", 24'576, kQwen3NextState + kQwen3NextConvolutions},
    // 20 of Gemma 3n's 35 layers have rows of their own; every fifth is global.
    {"gemma-3n-e4b", 4 * 2 * 256 * 4, 16LL * 2 * 256 * 4 * 512},
    // Three layers of four see chunks of 8,192 tokens.
    {"llama-4-scout", 12 * 4'096, 36LL * 4'096 * 8'192},
    {"cohere2-command-r7b", 8 * 4'096, 24LL * 4'096 * 4'096},
    {"gemma-2-9b", 21 * 8'192, 21LL * 8'192 * 4'096},
    {"starcoder2-3b", 0, 30LL * 1'024 * 4'096},
    {"deepseek-v2-lite", 27 * 576 * 2, 0},
    {"kimi-k2", 70'272, 0},
    // Four of 32 layers attend; the others keep a state in f32 and three inputs in 16 bits.
    {"jamba-v0.1", 4 * 4'096, 28LL * 8'192 * (16 * 4 + 3 * 2)},
    {"mamba-130m", 0, 24LL * 1'536 * (16 * 4 + 3 * 2)},
    {"mamba-codestral-7b", 0, 64LL * (8'192 * 128 * 4 + 10'240 * 3 * 2)},
    {"granite-4.0-h-tiny", 4 * 2'048, 36LL * (3'072 * 128 * 4 + 3'328 * 3 * 2)},
    {"lfm2-1.2b", 6 * 2'048, 10LL * 2'048 * 2 * 2},
};

class PublishedCache : public TestWithParam<CacheTruth> {};

TEST_P(PublishedCache, IsMetToTheByte) {
  const CacheTruth& truth = GetParam();
  const CachePlan cache(published_shape(truth.name), {}, {});
  EXPECT_EQ(cache.bytes_per_token(), truth.bytes_per_token);
  EXPECT_EQ(cache.fixed_bytes(), truth.fixed_bytes);
  // Long after every window is full.
  EXPECT_EQ(cache.used_bytes(100'000), truth.bytes_per_token * 100'000 + truth.fixed_bytes);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedCache, ValuesIn(kTruths),
                         [](const auto& test) { return test_name(test.param.name); });

TEST(PublishedModels, OfGemma3At32kTokensIsMetToTheByte) {
  const CachePlan cache(published_shape("gemma-3-4b"), {}, {});
  EXPECT_EQ(cache.used_bytes(32'768), 792'723'456);
}

TEST(PublishedModels, SayWhichDefaultsTheirFamilyImplies) {
  const ModelShape shape = published_shape("gemma-3-4b");
  std::string notes;
  for (const std::string& note : shape.notes) notes += note + "\n";
  for (const char* key : {"num_attention_heads is missing: gemma3_text implies 8",
                          "num_key_value_heads is missing: gemma3_text implies 4",
                          "head_dim is missing: gemma3_text implies 256",
                          "vocab_size is missing: gemma3_text implies 262,208",
                          "tie_word_embeddings is missing: gemma3_text implies true"}) {
    EXPECT_THAT(notes, HasSubstr(key));
  }
  for (const char* name : {"gpt2", "falcon-7b", "smollm3-3b"}) {
    std::string said;
    for (const std::string& note : published_shape(name).notes) said += note;
    EXPECT_THAT(said, HasSubstr("tie_word_embeddings is missing")) << name;
  }
}

}  // namespace
}  // namespace quire::plan
