// `quire run`, as a user or a script calls it.
#include <gmock/gmock.h>

#include <filesystem>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Greedy, eight tokens, as JSON.
Json run_json(std::vector<std::string> args, const RunSetup& setup = {}) {
  args.insert(args.begin(), "run");
  for (const char* arg : {"--temp", "0", "-n", "8", "--json"}) args.emplace_back(arg);
  const RunResult result = run_quire(args, setup);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json();
}

TEST(Run, PrintsOneDocumentWithTheContractsFields) {
  const Json json = run_json({tiny("llama_tied"), "-p", "hello"});
  for (const char* field : {"text", "tokens", "prompt_tokens", "completion_tokens", "finish_reason",
                            "stop", "choices", "reuse", "context", "timings", "kv", "memory"}) {
    EXPECT_NE(json.find(field), nullptr) << field;
  }
  EXPECT_EQ(at(json, "finish_reason"), Json("length"));
  EXPECT_EQ(at(json, "tokens").as_array()->size(), 8u);
  EXPECT_EQ(at(json, "completion_tokens"), Json(8));
  EXPECT_EQ(at(at(json, "reuse"), "cached_tokens"), Json(0));
  EXPECT_EQ(at(at(at(json, "reuse"), "miss"), "reason"), Json("cold"));
  EXPECT_EQ(at(at(json, "context"), "status"), Json("fits"));
  EXPECT_EQ(at(at(json, "context"), "policy"), Json("reject"));
  EXPECT_EQ(at(at(json, "context"), "limit"), Json("trained"));
  EXPECT_EQ(at(at(json, "kv"), "codec"), Json("f16"));
  EXPECT_GT(*at(at(json, "kv"), "bytes").as_int(), 0);
  EXPECT_GT(*at(at(json, "memory"), "rss_bytes").as_int(), 0);
  for (const char* field : {"p50", "p90", "p99"}) {
    EXPECT_NE(at(at(json, "timings"), "itl_ms").find(field), nullptr);
  }
}

TEST(Run, GivesTheSameTokensWithAndWithoutACache) {
  for (const char* model : {"llama_tied", "gemma3", "llama_gguf/q4_0.gguf"}) {
    const Json cached = run_json({tiny(model), "-p", "hello"});
    for (const std::vector<std::string>& other :
         {std::vector<std::string>{"--cache", "none"}, {"--prefill-chunk", "3"}, {"-t", "1"}}) {
      std::vector<std::string> args = {tiny(model), "-p", "hello"};
      args.insert(args.end(), other.begin(), other.end());
      EXPECT_EQ(at(run_json(args), "tokens"), at(cached, "tokens")) << model << other[0];
    }
    const Json scalar =
        run_json({tiny(model), "-p", "hello"}, {.in = "", .env = {{"QUIRE_ISA", "scalar"}}});
    EXPECT_EQ(at(scalar, "tokens"), at(cached, "tokens")) << model;
  }
}

TEST(Run, StreamsTheTextAloneOnStdout) {
  const RunResult text =
      run_quire({"run", tiny("llama_tied"), "-p", "hi", "--temp", "0", "-n", "8"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(Json(text.out), at(run_json({tiny("llama_tied"), "-p", "hi"}), "text"));
  EXPECT_THAT(text.err, IsEmpty());
}

TEST(Run, WritesToAFileInsteadOfStdout) {
  const std::string file = scratch_path("answer.json");
  const RunResult result = run_quire(
      {"run", tiny("llama_tied"), "-p", "hi", "--temp", "0", "-n", "8", "--json", "-o", file});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, IsEmpty());
  const auto written = Json::parse(file_content(file), file);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(at(*written, "tokens"), at(run_json({tiny("llama_tied"), "-p", "hi"}), "tokens"));
}

TEST(Run, WritesIntoADeviceWithoutReplacingIt) {
  const RunResult result =
      run_quire({"run", tiny("llama_tied"), "-p", "hi", "-n", "2", "-o", "/dev/null"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Run, SaysWhenTheOutputCannotBeWritten) {
  EXPECT_EQ(run_quire({"run", tiny("llama_tied"), "-p", "x", "-n", "2", "-o",
                       scratch_path("no/such/folder/a")})
                .exit_code,
            3);
}

TEST(Run, ReadsThePromptFromStdinWhenNoneIsGiven) {
  const Json given = run_json({tiny("llama_tied"), "-p", "hello\n"});
  EXPECT_EQ(at(run_json({tiny("llama_tied")}, {.in = "hello\n"}), "tokens"), at(given, "tokens"));
  EXPECT_EQ(at(run_json({tiny("llama_tied"), "-f", "-"}, {.in = "hello\n"}), "tokens"),
            at(given, "tokens"));
}

TEST(Run, DrawsTheSameTokensForTheSameSeed) {
  const auto draw = [](const char* seed) {
    const RunResult result =
        run_quire({"run", tiny("llama_tied"), "-p", "hello", "-n", "24", "--seed", seed, "--temp",
                   "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return at(result.json(), "tokens");
  };
  EXPECT_EQ(draw("1"), draw("1"));
  EXPECT_NE(draw("1"), draw("2"));
}

TEST(Run, GivesEachChoiceItsOwnDrawsOverSharedPages) {
  const std::vector<std::string> args = {
      "run", tiny("gemma3"), "-p", "hello",   "-n", "16",    "--temp", "20", "--top-k",
      "0",   "--top-p",      "1",  "--min-p", "0",  "--json"};
  std::vector<std::string> three = args;
  three.insert(three.end(), {"--choices", "3"});
  const Json alone = run_quire(args).json();
  const Json many = run_quire(three).json();
  const Json::Array& choices = *at(many, "choices").as_array();
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(at(choices[0], "tokens"), at(alone, "tokens"));
  EXPECT_NE(at(choices[1], "tokens"), at(choices[0], "tokens"));
  EXPECT_NE(at(choices[2], "tokens"), at(choices[1], "tokens"));
}

TEST(Run, ReportsOneLogprobATokenThatReadsBackExactly) {
  const Json json = run_json({tiny("llama_tied"), "-p", "hello", "--logprobs", "2"});
  const Json::Array& logprobs = *at(json, "logprobs").as_array();
  const Json::Array& top = *at(json, "top_logprobs").as_array();
  ASSERT_EQ(logprobs.size(), 8u);
  ASSERT_EQ(top.size(), 8u);
  for (size_t i = 0; i < logprobs.size(); ++i) {
    // Greedy: the chosen token is the likeliest.
    ASSERT_EQ(top[i].as_array()->size(), 2u);
    EXPECT_EQ(at(top[i].as_array()->front(), "logprob"), logprobs[i]);
    const auto again = Json::parse(logprobs[i].dump(), "number");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->as_double(), logprobs[i].as_double());
  }
}

TEST(Run, StopsBeforeAStopText) {
  const Json whole = run_json({tiny("llama_tied"), "-p", "hello"});
  const std::string text = *at(whole, "text").as_string();
  ASSERT_GE(text.size(), 3u);
  const std::string stop = text.substr(text.size() - 1);
  const Json cut = run_json({tiny("llama_tied"), "-p", "hello", "--stop", stop});
  EXPECT_EQ(at(cut, "finish_reason"), Json("stop"));
  EXPECT_EQ(at(cut, "stop"), Json(stop));
  EXPECT_EQ(*at(cut, "text").as_string(), text.substr(0, text.find(stop)));
}

TEST(Run, PrintsWhatItHasWhenInterrupted) {
  TerminalRun run({"run", tiny("llama_tied"), "-p", "hello", "--temp", "0", "--cache", "none",
                   "--logit-bias", "67=1000"});
  ASSERT_TRUE(run.wait_for("aaaa")) << run.screen();
  run.type("\x03");
  EXPECT_EQ(run.exit_code(), 130) << run.screen();
  EXPECT_THAT(run.screen(), HasSubstr("tok/s]"));
}

TEST(Run, ContinuesTheTextOfAModelWithoutATemplateAndSaysSo) {
  const RunResult result =
      run_quire({"run", model_without_template(), "-p", "hello", "-n", "2", "--temp", "0"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("no chat template"));
  EXPECT_THAT(result.out, Not(HasSubstr("template")));
}

TEST(Run, RefusesWhatDoesNotFitWithAllNumbers) {
  const RunResult n = run_quire({"run", tiny("llama_tied"), "-p", "hello", "-n", "1000"});
  EXPECT_EQ(n.exit_code, 4);
  EXPECT_THAT(n.err, HasSubstr("-n 1000"));
  EXPECT_THAT(n.err, HasSubstr("window of 512"));
  EXPECT_THAT(n.err, HasSubstr("left"));
  const RunResult ctx = run_quire({"run", tiny("llama_tied"), "-p", "hello", "--ctx", "513"});
  EXPECT_EQ(ctx.exit_code, 4);
  EXPECT_THAT(ctx.err, HasSubstr("--ctx 513"));
  EXPECT_THAT(ctx.err, HasSubstr("--rope-scaling"));
}

TEST(Run, LowersTheLengthToWhatFitsIfAllowed) {
  const RunResult result = run_quire({"run", tiny("llama_tied"), "-p", "hello", "--ctx", "40", "-n",
                                      "1000", "--fit-output", "--temp", "0", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("lowered to"));
  const Json json = result.json();
  EXPECT_EQ(at(at(json, "context"), "limit"), Json("ctx"));
  EXPECT_EQ(*at(json, "prompt_tokens").as_int() + *at(at(json, "context"), "reserve").as_int(), 40);
}

TEST(Run, TakesAConversationFromAFile) {
  const std::string messages = scratch_file(
      "messages.json",
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}]})");
  EXPECT_EQ(at(run_json({tiny("llama_tied"), "--messages", messages}), "tokens"),
            at(run_json({tiny("llama_tied"), "--system", "s", "-p", "hello"}), "tokens"));
  const std::string bare = scratch_file("bare.json", R"([{"role":"user","content":"hello"}])");
  EXPECT_EQ(at(run_json({tiny("llama_tied"), "--messages", bare}), "prompt_tokens"),
            at(run_json({tiny("llama_tied"), "-p", "hello"}), "prompt_tokens"));
}

TEST(Run, PutsAPrefixAtTheHeadOfTheFirstUserMessage) {
  const std::string prefix = scratch_file("prefix.txt", "a document");
  EXPECT_EQ(at(run_json({tiny("llama_tied"), "--prefix-file", prefix, "-p", "q"}), "tokens"),
            at(run_json({tiny("llama_tied"), "-p", "a document", "-p", "q"}), "tokens"));
}

TEST(Run, FindsANameInTheHomeFolder) {
  std::filesystem::create_directories(scratch_path("models"));
  std::filesystem::copy_file(tiny("llama_gguf/f32.gguf"), scratch_path("models/little.gguf"),
                             std::filesystem::copy_options::overwrite_existing);
  run_json({"little", "-p", "hello"});
  const RunResult missing = run_quire({"run", "large", "-p", "hello"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("there is no model 'large'"));
}

}  // namespace
}  // namespace quire::cli
