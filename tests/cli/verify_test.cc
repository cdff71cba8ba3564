// verify: everything is equal to recomputing it, and a cache that is not is found.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/run_quire.h"
#include "cli/verification.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;

Json call(std::vector<std::string> args) {
  args.insert(args.begin(), "verify");
  args.emplace_back("--json");
  const RunResult result = run_quire(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json();
}

const Json& find_result(const Json& json, std::string_view cache, std::string_view kv) {
  for (const Json& result : *at(json, "results").as_array()) {
    if (at(result, "cache").as_string()->starts_with(cache) &&
        *at(result, "kv").as_string() == kv) {
      return result;
    }
  }
  ADD_FAILURE() << cache << " " << kv << " is not in the table";
  static const Json none;
  return none;
}

/// A folder, or a GGUF file, of each tiny model.
std::vector<std::string> every_tiny_model() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_TEST_DATA "/tiny")) {
    if (std::filesystem::exists(entry.path() / "config.json")) {
      models.push_back(entry.path().string());
      continue;
    }
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(entry)) {
      const bool is_later_part = file.path().string().find("-00001-") == std::string::npos &&
                                 file.path().string().find("-of-") != std::string::npos;
      if (file.path().extension() == ".gguf" && !is_later_part) files.push_back(file.path());
    }
    if (!files.empty()) models.push_back(std::ranges::min(files));
  }
  std::ranges::sort(models);
  return models;
}

class VerifyEveryModel : public testing::TestWithParam<std::string> {};

TEST_P(VerifyEveryModel, FindsItsDefaultMatrixIdenticalToNoCache) {
  const Json json = call({GetParam(), "-n", "4", "--lengths", "3"});
  const Json::Array& results = *at(json, "results").as_array();
  EXPECT_GE(results.size(), 7u);
  for (const Json& result : results) {
    EXPECT_EQ(at(result, "identical"), Json(true)) << result.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifyEveryModel, testing::ValuesIn(every_tiny_model()), [](const auto& test) {
      std::string name = std::filesystem::path(test.param).stem().string();
      if (!std::filesystem::is_directory(test.param)) {
        name = std::filesystem::path(test.param).parent_path().filename().string();
      }
      return name;
    });

TEST(Verify, FindsTheDefaultMatrixIdenticalToNoCache) {
  for (const char* model : {"llama_tied", "gemma3", "llama_k_gguf/q4_k_m.gguf"}) {
    SCOPED_TRACE(model);
    const Json json = call({tiny(model), "-n", "6", "--lengths", "3"});
    for (const Json& result : *at(json, "results").as_array()) {
      EXPECT_EQ(at(result, "identical"), Json(true)) << result.dump();
      EXPECT_EQ(at(result, "max_abs_diff").as_double(), 0.0);
      EXPECT_TRUE(at(result, "first_difference").is_null());
    }
    for (const char* kv : {"f16", "q8", "q6", "q4", "q6/q4"}) {
      const Json& result = find_result(json, "dynamic", kv);
      EXPECT_EQ(at(result, "lossless"), Json(std::string_view(kv) == "f16"));
      EXPECT_EQ(at(result, "against"), Json("none " + std::string(kv)));
      // Codecs do round differently, or the comparison would see nothing.
      EXPECT_EQ(*at(result, "kl_max").as_double() > 0.0, std::string_view(kv) != "f16") << kv;
    }
    EXPECT_EQ(at(find_result(json, "static", "f16"), "lossless"), Json(true));
    const int64_t tokens = *at(at(json, "reference"), "tokens").as_int();
    const std::string sliding = "sliding:" + std::to_string(tokens / 2) + "+4";
    const Json& window = find_result(json, sliding, "f16");
    EXPECT_EQ(at(window, "lossless"), Json(false));
    EXPECT_EQ(at(window, "against"), Json("none," + sliding + " f16"));
    if (at(json, "left_out").is_null()) {
      EXPECT_EQ(at(find_result(json, "offloaded:", "f16"), "lossless"), Json(true));
    }
  }
}

TEST(Verify, TriesOtherChunksAndThreadsWhenAskedForAll) {
  const Json json =
      call({tiny("llama_tied"), "-p", "hello there", "-n", "3", "--full", "--lengths", "1"});
  EXPECT_GE(at(json, "results").as_array()->size(), 17u);
  EXPECT_EQ(at(json, "results").as_array()->back().find("threads")->as_int(), 3);
}

TEST(Verify, SaysWhenThereWasNothingToSee) {
  const Json json = call({tiny("llama_tied"), "-p", "hello there", "-n", "2", "--lengths", "1",
                          "--cache", "dynamic", "--cache", "sliding:100", "--kv", "f16,q4"});
  ASSERT_EQ(at(json, "results").as_array()->size(), 4u);
  EXPECT_TRUE(at(find_result(json, "dynamic", "f16"), "note").is_null());
  EXPECT_THAT(*at(find_result(json, "dynamic", "q4"), "note").as_string(),
              HasSubstr("no query read a sealed page"));
  const Json& window = find_result(json, "sliding:100", "f16");
  EXPECT_THAT(*at(window, "note").as_string(), HasSubstr("fit the window"));
  EXPECT_EQ(at(window, "lossless"), Json(true));
  const RunResult people = run_quire(
      {"verify", tiny("llama_tied"), "-p", "hello", "-n", "2", "--lengths", "1", "--kv", "q4"});
  EXPECT_THAT(people.out, HasSubstr("no query read a sealed page"));
}

TEST(Verify, MeasuresSpeedAtEachLength) {
  const Json json =
      call({tiny("llama_tied"), "-p", "hello", "-n", "1", "--kv", "f16", "--lengths", "1,50,300"});
  const Json::Array& lengths = *at(json, "lengths").as_array();
  ASSERT_EQ(lengths.size(), 3u);
  for (size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(at(lengths[i], "identical"), Json(true));
    EXPECT_GT(*at(lengths[i], "none_ms").as_double(), 0.0);
    EXPECT_GT(*at(lengths[i], "speedup").as_double(), 0.0);
  }
  EXPECT_EQ(at(lengths[2], "tokens"), Json(300));
}

TEST(Verify, UsesTheWholeWindowOfATinyModelByDefault) {
  const Json json = call({tiny("llama_tied"), "--kv", "f16", "--lengths", "1"});
  EXPECT_EQ(at(at(json, "reference"), "tokens"), Json(512 - 16));
  EXPECT_EQ(at(json, "results").as_array()->size(), 1u);
}

TEST(Verify, RefusesInOneSentence) {
  const std::string model = tiny("llama_tied");
  const auto refused = [](std::vector<std::string> args, int code, const char* sentence) {
    const RunResult result = run_quire(args);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  };
  refused({"verify", model, "--lengths", "1000"}, 4, "1000");
  refused({"verify", model, "--lengths", "x"}, 2, "--lengths");
  refused({"verify", model, "--kv", "q5"}, 2, "'q5'");
  refused({"verify", model, "--no-special", "-f", "/dev/null"}, 2, "no tokens");
}

/// A fault planted in the cache: its last token becomes another one.
void put_another_token_last(engine::Engine& engine, engine::Sequence& sequence) {
  const int32_t vocab = engine.model().config().vocab;
  const TokenId other{(sequence.tokens().back().value + 1) % vocab};
  ASSERT_TRUE(engine.truncate(sequence, sequence.length() - 1).ok());
  ASSERT_TRUE(engine.append(sequence, {&other, 1}).ok());
}

TEST(Verify, FindsAFaultThatWasPlantedInTheCache) {
  const Environment env = process_environment();
  VerifyOptions options;
  options.model.models = {tiny("llama_tied")};
  options.prompt.pieces = {{PromptOptions::Piece::Kind::kText, "hello there, how are you?"}};
  options.codecs = {{kv::Codec::F16, kv::Codec::F16}, {kv::Codec::Q8, kv::Codec::Q8}};
  options.lengths = {4};
  options.steps = 3;
  Output output(env, {.json = true});

  const auto sound = verify(env, options, output);
  ASSERT_TRUE(sound.ok()) << sound.error().message;
  EXPECT_TRUE(verdict(*sound).ok());

  const auto broken = verify(env, options, output, {.after_prompt = put_another_token_last});
  ASSERT_TRUE(broken.ok()) << broken.error().message;
  EXPECT_EQ(broken->count_different(), 2);
  const Result<void> judged = verdict(*broken);
  ASSERT_FALSE(judged.ok());
  EXPECT_EQ(exit_code(judged.error().code), 5);
  EXPECT_THAT(judged.error().message, HasSubstr("2 of 3 comparisons differ"));
  // The prompt's own row was read before the fault; the first step is the first to differ.
  const Json first = at(to_json(*broken), "results").as_array()->front();
  EXPECT_EQ(at(first, "identical"), Json(false));
  EXPECT_EQ(at(at(first, "first_difference"), "step"), Json(1));
  EXPECT_GT(*at(first, "max_abs_diff").as_double(), 0.0);
  EXPECT_THAT(for_people(*broken), HasSubstr("DIFFERS from step 1"));
}

}  // namespace
}  // namespace quire::cli
