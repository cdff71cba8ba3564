// `quire plan` as people and scripts call it.
#include <gmock/gmock.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string published(std::string_view name) {
  return QUIRE_TEST_DATA "/plan/" + std::string(name) + ".json";
}

int64_t number(const Json& json, std::string_view key) {
  return at(json, key).as_int().value_or(-1);
}

std::string notes(const Json& json) {
  std::string all;
  for (const Json& note : *at(json, "notes").as_array()) all += *note.as_string() + "\n";
  return all;
}

TEST(PlanCommand, AnswersBareNumbers) {
  const RunResult result = run_quire({"plan", "--layers", "28", "--kv-heads", "4", "--head-dim",
                                      "128", "--context", "32768", "--kv", "f16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = result.json();
  EXPECT_EQ(number(json, "kv_bytes"), 1'879'048'192);
  EXPECT_EQ(number(json, "kv_bytes_per_token"), 57'344);
  EXPECT_EQ(*at(json, "formula").as_string(),
            "28 layers x 4 kv heads x 128 dims x (2 K + 2 V) bytes = 57,344 bytes a token");
  const RunResult text = run_quire(
      {"plan", "--layers", "28", "--kv-heads", "4", "--head-dim", "128", "--context", "32768"});
  EXPECT_THAT(text.out, HasSubstr("1.75 GiB"));
  const RunResult beams = run_quire({"plan", "--layers", "28", "--kv-heads", "4", "--head-dim",
                                     "128", "--context", "32768", "--beams", "4", "--json"});
  EXPECT_EQ(number(beams.json(), "kv_bytes"), 4LL * 1'879'048'192);
}

TEST(PlanCommand, HasTheFieldsOfTheContract) {
  const RunResult result = run_quire({"plan", published("gemma-3-1b"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = result.json();
  for (const char* key :
       {"weights_bytes", "kv_bytes_per_token", "kv_fixed_bytes_per_sequence", "kv_bytes",
        "page_rounding_bytes", "activation_bytes", "logits_bytes", "overhead_bytes", "total_bytes",
        "fits", "max_context", "max_sequences", "formula", "by_layer_group", "by_codec", "notes"}) {
    EXPECT_NE(json.find(key), nullptr) << key;
  }
  EXPECT_EQ(number(json, "kv_bytes_per_token"), 4'096);
  EXPECT_EQ(number(json, "kv_fixed_bytes_per_sequence"), 11'534'336);
  const Json& groups = at(json, "by_layer_group");
  ASSERT_EQ(groups.as_array()->size(), 2u);
  EXPECT_EQ(*at(groups.as_array()->front(), "kind").as_string(), "window");
  EXPECT_EQ(number(groups.as_array()->front(), "pages"), 9);
  int64_t sum = 0;
  for (const char* part : {"weights_bytes", "kv_bytes", "page_rounding_bytes", "prefill_bytes",
                           "activation_bytes", "logits_bytes", "overhead_bytes"}) {
    sum += number(json, part);
  }
  EXPECT_EQ(sum, number(json, "total_bytes"));
}

TEST(PlanCommand, ExitsWith4OnlyIfMemoryWasGivenAndDoesNotSuffice) {
  const std::string large = published("deepseek-v3");
  EXPECT_EQ(run_quire({"plan", large, "--context", "100"}).exit_code, 0);
  const RunResult refused = run_quire({"plan", large, "--context", "100", "--memory", "24G"});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.out, HasSubstr("does not fit in"));
  EXPECT_THAT(refused.err, HasSubstr("more than --memory 24.0 GiB"));
  EXPECT_EQ(refused.error_lines(), 1);
  EXPECT_EQ(run_quire({"plan", published("qwen2.5-0.5b"), "--memory", "24GB"}).exit_code, 0);
}

TEST(PlanCommand, NamesTheCheapestChanges) {
  const RunResult result =
      run_quire({"plan", published("qwen2.5-7b"), "--weights", "q4_k_m", "--sequences", "50",
                 "--context", "8192", "--memory", "24G", "--json"});
  EXPECT_EQ(result.exit_code, 4);
  const Json json = result.json();
  EXPECT_EQ(*at(json, "fits").as_bool(), false);
  EXPECT_THAT(notes(json), HasSubstr("--kv q8 fits"));
  EXPECT_THAT(notes(json), HasSubstr("--sequences "));
}

TEST(PlanCommand, SaysWhichDefaultsWereApplied) {
  const RunResult result = run_quire({"plan", published("gemma-3-4b")});
  EXPECT_THAT(result.out, HasSubstr("num_attention_heads is missing: gemma3_text implies 8"));
}

TEST(PlanCommand, SavesBySharing) {
  const auto kv_bytes = [](std::vector<std::string> more) {
    std::vector<std::string> args = {
        "plan", published("llama-3.1-8b"), "--sequences", "1000", "--context", "2048", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return number(run_quire(args).json(), "kv_bytes");
  };
  EXPECT_EQ(kv_bytes({}), 131'072LL * 2'048 * 1'000);
  EXPECT_EQ(kv_bytes({"--shared", "1024"}), 131'072LL * (1'024 + 1'024 * 1'000));
}

TEST(PlanCommand, ComparesContexts) {
  const RunResult result =
      run_quire({"plan", published("llama-3.1-8b"), "--context", "8192,1024,131072", "--json"});
  const Json json = result.json();
  EXPECT_EQ(number(at(json, "request"), "context"), 131'072);
  ASSERT_EQ(at(json, "by_context").as_array()->size(), 3u);
  EXPECT_EQ(number(at(json, "by_context").as_array()->front(), "kv_bytes"), 131'072LL * 1'024);
}

TEST(PlanCommand, UnderstandsStrategies) {
  const auto plan = [](const std::string& cache) {
    return run_quire({"plan", published("llama-3.1-8b"), "--context", "8192", "--mean-context",
                      "1024", "--cache", cache, "--json"})
        .json();
  };
  const int64_t row = 131'072;
  EXPECT_EQ(number(plan("dynamic"), "page_rounding_bytes"), 0);
  EXPECT_EQ(number(plan("static"), "page_rounding_bytes"), row * (8'192 - 1'024));
  EXPECT_EQ(number(plan("sliding:256+4"), "kv_bytes"), row * 260);
  EXPECT_EQ(number(plan("offloaded:64M"), "spilled_bytes"), row * 1'024 - (64 << 20));
}

TEST(PlanCommand, WritesAChart) {
  const std::string svg = scratch_path("chart.svg");
  const RunResult result =
      run_quire({"plan", published("llama-3.1-8b"), "--memory", "64G", "--svg", svg, "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(file_content(svg), HasSubstr("limit 64.0 GiB"));
}

TEST(PlanCommand, ReadsATinyModelAsTheEngineDoes) {
  const std::string model = tiny("gemma3");
  const Json planned = run_quire({"plan", model, "--json"}).json();
  const Json info = run_quire({"info", model, "--json"}).json();
  EXPECT_EQ(number(planned, "kv_bytes_per_token"), number(info, "kv_bytes_per_token"));
  EXPECT_EQ(number(planned, "kv_fixed_bytes_per_sequence"), number(info, "kv_fixed_bytes"));
  EXPECT_EQ(number(planned, "parameters"), number(info, "parameters"));
  EXPECT_EQ(*at(planned, "formula").as_string(), *at(info, "kv_formula").as_string());
}

struct Refused {
  std::vector<std::string> args;
  int exit_code;
  const char* sentence;
};

TEST(PlanCommand, RefusesInOneSentence) {
  const std::string qwen = published("qwen2.5-0.5b");
  const std::string t5 = scratch_file("t5.json", R"({"model_type":"t5"})");
  const std::string unknown = scratch_file("unknown.json", R"({"model_type":"frob"})");
  const Refused all[] = {
      {{"plan"}, 2, "which model?"},
      {{"plan", "--layers", "2"}, 2, "--kv-heads is missing"},
      {{"plan", qwen, "--layers", "2"}, 2, "leave one out"},
      {{"plan", qwen, "--kv", "q5"}, 2, "--kv"},
      {{"plan", qwen, "--weights", "q9"}, 2, "--weights does not know 'q9'; known: f32"},
      {{"plan", qwen, "--memory", "lots"}, 2, "--memory wants a size"},
      {{"plan", qwen, "--memory", "0"}, 2, "--memory wants a size"},
      {{"plan", qwen, "--cache", "sliding:0"}, 2, "sliding:WINDOW"},
      {{"plan", qwen, "--cache", "magic"}, 2, "dynamic, static"},
      {{"plan", qwen, "--context", "0"}, 2, "--context"},
      {{"plan", qwen, "--context", "10", "--mean-context", "20"}, 2, "--mean-context 20"},
      {{"plan", qwen, "--context", "10", "--shared", "20"}, 2, "--shared 20"},
      {{"plan", t5}, 3, "t5 is an encoder-decoder"},
      {{"plan", unknown}, 3, "model_type 'frob' is not known"},
      {{"plan", "/nowhere/at/all"}, 3, "/nowhere/at/all"},
  };
  for (const Refused& refused : all) {
    const RunResult result = run_quire(refused.args);
    const std::string called = ::testing::PrintToString(refused.args);
    EXPECT_EQ(result.exit_code, refused.exit_code) << called << result.err;
    EXPECT_THAT(result.err, HasSubstr(refused.sentence)) << called;
    EXPECT_EQ(result.error_lines(), 1) << called << result.err;
    EXPECT_EQ(result.out, "") << called;
  }
}

}  // namespace
}  // namespace quire::cli
