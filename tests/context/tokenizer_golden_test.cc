// Ids and texts that Hugging Face's tokenizers gave, for real vocabularies and for tiny models.
#include <gmock/gmock.h>

#include "base/utf8.h"
#include "context/tokenizer/readers.h"
#include "context/tokenizer_testing.h"
#include "formats/gguf_builder.h"
#include "formats/memory_file_system.h"
#include "scenarios/real_model.h"

namespace quire::context {
namespace {

using formats::Json;

Json data(const std::string& name) {
  const auto text = read_file(QUIRE_TEST_DATA "/" + name);
  return Json::parse(text.value(), name).value();
}

enum class Compare { kAll, kWithinVocabulary };

/// Compares with tests/data/tokenizers/NAME.json: ids of every string, and what they decode to.
void expect_golden(const Tokenizer& tokenizer, const std::string& name,
                   Compare compare = Compare::kAll) {
  const Json strings = data("tokenizers/strings.json");
  const Json golden = data("tokenizers/" + name + ".json");
  const Json::Array& expected_ids = *golden.find("ids")->as_array();
  ASSERT_EQ(strings.as_array()->size(), expected_ids.size());
  for (size_t i = 0; i < expected_ids.size(); ++i) {
    const std::string& text = *(*strings.as_array())[i].as_string();
    const std::vector<int32_t> expected = numbers(expected_ids[i]);
    if (compare == Compare::kWithinVocabulary &&
        std::ranges::any_of(expected, [&](int32_t id) { return id >= tokenizer.vocab_size(); })) {
      continue;
    }
    const auto ids = tokenizer.encode(text, Special::kParse);
    EXPECT_EQ(numbers(ids), expected) << Json(text).dump();
    const Json* decoded = golden.find("decoded")->find(std::to_string(i));
    EXPECT_EQ(tokenizer.decode(ids, SpecialText::kShow), decoded ? *decoded->as_string() : text);
  }
}

void expect_shared_golden(const std::string& name) {
  const auto tokenizer = shared_tokenizer(name);
  if (!tokenizer) GTEST_SKIP() << "needs ../shared/tokenizers/" << name;
  expect_golden(*tokenizer, name);
}

TEST(TokenizerGolden, Llama3GivesHuggingFacesIds) {
  expect_shared_golden("llama3");
}
TEST(TokenizerGolden, Qwen3GivesHuggingFacesIds) {
  expect_shared_golden("qwen3");
}
TEST(TokenizerGolden, MistralGivesHuggingFacesIds) {
  expect_shared_golden("mistral_v1");
}
TEST(TokenizerGolden, Gemma3GivesHuggingFacesIds) {
  expect_shared_golden("gemma3");
}

TEST(TokenizerGolden, SmolLm2FromGgufGivesHuggingFacesIds) {
  const auto path = engine::real_model("smollm2");
  QUIRE_SKIP_WITHOUT("smollm2", path);
  expect_golden(tokenizer_of_gguf(*path), "smollm2");
}

TEST(TokenizerGolden, Gemma3FromGgufGivesHuggingFacesIds) {
  const auto path = engine::real_model("gemma3");
  QUIRE_SKIP_WITHOUT("gemma3", path);
  expect_golden(tokenizer_of_gguf(*path), "gemma3", Compare::kWithinVocabulary);
}

/// A GGUF file of the small golden vocabulary with that pre-tokenizer.
Result<Tokenizer> named_tokenizer(const Json& vocabulary, std::string_view pre) {
  const auto strings = [&](const char* key) {
    std::vector<std::string> out;
    for (const Json& text : *vocabulary.find(key)->as_array()) out.push_back(*text.as_string());
    return out;
  };
  formats::GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", pre)
      .strings("tokenizer.ggml.tokens", strings("tokens"))
      .numbers<int32_t>("tokenizer.ggml.token_type", numbers(*vocabulary.find("types")))
      .strings("tokenizer.ggml.merges", strings("merges"));
  formats::MemoryFileSystem files;
  files.put("model.gguf", builder.build());
  const auto file =
      formats::GgufFile::open(files, "model.gguf", formats::OpenMode::kMetadataOnly).value();
  return Tokenizer::from_gguf(file.metadata());
}

TEST(TokenizerGolden, EveryPreTokenizerOfGgufCutsAsTheMakersTokenizerJson) {
  const Json strings = data("tokenizers/strings.json");
  const Json vocabulary = data("tokenizers/vocabulary.json");
  const Json golden = data("tokenizers/named.json");
  for (const auto& [name, ids] : *golden.as_object()) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = named_tokenizer(vocabulary, name).value();
    const Json& expected = ids.is_string() ? *golden.find(*ids.as_string()) : ids;
    for (size_t i = 0; i < strings.as_array()->size(); ++i) {
      const std::string& text = *(*strings.as_array())[i].as_string();
      ASSERT_EQ(encode(tokenizer, text), numbers((*expected.as_array())[i])) << Json(text).dump();
    }
  }
}

TEST(TokenizerGolden, NoPreTokenizerIsWithoutAGoldenOrAnotherNameOfOneThatHasIt) {
  const Json golden = data("tokenizers/named.json");
  const std::vector<std::string_view> aliases = {"gpt2", "llama3",           "llama-v3",
                                                 "glm4", "deepseek-r1-qwen", "megrez"};
  for (const std::string_view name : pre_tokenizer_names()) {
    const bool is_alias = std::ranges::find(aliases, name) != aliases.end();
    EXPECT_NE(golden.find(name) != nullptr, is_alias) << name;
  }
}

class TinyModelTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(TinyModelTokenizer, GivesHuggingFacesIdsWithBosWhereTheModelWantsIt) {
  const std::string folder = std::string("tiny/") + GetParam();
  const auto tokenizer = tokenizer_of_folder(QUIRE_TEST_DATA "/" + folder);
  ASSERT_TRUE(tokenizer.has_value());
  const Json golden = data(folder + "/golden.json");
  for (const Json& entry : *golden.find("texts")->as_array()) {
    std::vector<int32_t> ids;
    if (tokenizer->add_bos()) ids.push_back(tokenizer->bos()->value);
    for (const int32_t id : encode(*tokenizer, *entry.find("text")->as_string())) ids.push_back(id);
    if (tokenizer->add_eos()) ids.push_back(tokenizer->eos()->value);
    EXPECT_EQ(ids, numbers(*entry.find("ids"))) << entry.find("text")->dump();
  }
  const Json& chat = *golden.find("chat");
  EXPECT_EQ(encode(*tokenizer, *chat.find("prompt")->as_string()), numbers(*chat.find("ids")));
}

INSTANTIATE_TEST_SUITE_P(All, TinyModelTokenizer,
                         testing::Values("llama_tied", "llama_untied", "llama3_rope",
                                         "llama3_rope_legacy", "llama_mha_bf16", "llama_f16",
                                         "gemma3", "gemma3_legacy"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace quire::context
