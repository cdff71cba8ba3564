// `quire run --beams` and `--choices`, as a user or a script calls them.
#include <gmock/gmock.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json search_json(std::vector<std::string> args) {
  args.insert(args.begin(), "run");
  for (const char* arg : {"--beams", "4", "-n", "12", "--json"}) args.emplace_back(arg);
  const RunResult result = run_quire(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json();
}

TEST(Beams, PrintTheBestAnswerAndAllInJson) {
  const Json json = search_json({tiny("llama_tied"), "-p", "hello", "--logprobs", "2"});
  const Json::Array& choices = *at(json, "choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  for (const char* field : {"text", "tokens", "finish_reason", "stop", "score", "logprobs"}) {
    EXPECT_EQ(at(json, field), at(choices[0], field)) << field;
  }
  for (size_t i = 1; i < choices.size(); ++i) {
    EXPECT_LE(*at(choices[i], "score").as_double(), *at(choices[i - 1], "score").as_double());
    EXPECT_NE(at(choices[i], "tokens"), at(choices[i - 1], "tokens"));
  }
  double sum = 0.0;
  for (const Json& logprob : *at(choices[0], "logprobs").as_array()) sum += *logprob.as_double();
  const auto length = static_cast<double>(at(choices[0], "tokens").as_array()->size());
  EXPECT_NEAR(*at(choices[0], "score").as_double(), sum / length, 1e-9);
  EXPECT_GT(*at(at(json, "kv"), "bytes").as_int(), 0);

  const RunResult text =
      run_quire({"run", tiny("llama_tied"), "-p", "hello", "--beams", "4", "-n", "12"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(Json(text.out), at(json, "text"));
  EXPECT_THAT(text.err, IsEmpty());
}

TEST(Beams, AnswerAlikeInEveryCache) {
  const std::string prompt(300, 'x');
  for (const char* model : {"llama_mha_bf16", "gemma3"}) {
    const Json wanted = search_json({tiny(model), "-p", prompt});
    for (const std::vector<std::string>& other :
         {std::vector<std::string>{"--cache", "none"},
          {"--cache", "static"},
          {"--cache", "offloaded:560K", "--ctx", "450", "--prefill-chunk", "32"},
          {"--prefill-chunk", "3"},
          {"-t", "1"}}) {
      std::vector<std::string> args = {tiny(model), "-p", prompt};
      args.insert(args.end(), other.begin(), other.end());
      EXPECT_EQ(at(search_json(args), "choices"), at(wanted, "choices")) << model << other[1];
    }
  }
}

TEST(Beams, OneBeamIsGreedy) {
  const RunResult greedy =
      run_quire({"run", tiny("gemma3"), "-p", "hello", "--temp", "0", "-n", "20"});
  const RunResult one = run_quire(
      {"run", tiny("gemma3"), "-p", "hello", "--beams", "1", "--length-penalty", "2", "-n", "20"});
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_EQ(one.out, greedy.out);
}

TEST(Beams, RefuseWhatContradictsASearch) {
  const auto refused = [](std::vector<std::string> options, const std::string& sentence) {
    options.insert(options.begin(), {"run", tiny("llama_tied"), "-p", "x"});
    const RunResult result = run_quire(options);
    EXPECT_EQ(result.exit_code, 2) << sentence;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(result.error_lines(), 1);
  };
  refused({"--beams", "3", "--temp", "0.5"}, "leave out --temp");
  refused({"--beams", "3", "--top-p", "0.5"}, "leave out --top-p");
  refused({"--beams", "3", "--repeat-penalty", "1.1"}, "leave out --repeat-penalty");
  refused({"--beams", "3", "--choices", "2"}, "leave out --choices");
  refused({"--beams", "0"}, "from 1 to 64");
  refused({"--beams", "65"}, "from 1 to 64");
  refused({"--beams", "2", "--length-penalty", "11"}, "between -10 and 10");
  refused({"--beams", "2", "--early-stopping=maybe"}, "not 'maybe'");
  refused({"--length-penalty", "1"}, "needs --beams");
  refused({"--early-stopping"}, "needs --beams");
}

TEST(Beams, PrintTheBestSoFarWhenInterrupted) {
  TerminalRun run({"run", tiny("llama_tied"), "-p", "hello", "--beams", "64", "--cache", "none",
                   "--early-stopping=never"});
  ASSERT_TRUE(run.wait_for("searching")) << run.screen();
  run.type("\x03");
  EXPECT_EQ(run.exit_code(), 130) << run.screen();
  EXPECT_THAT(run.screen(), HasSubstr("tok/s]"));
}

/// The prompt's pages, and those of the choice that is being written.
TEST(Choices, HoldThePromptOnce) {
  const std::string prompt(300, 'x');
  for (const char* codec : {"f16", "q8"}) {
    const RunResult result =
        run_quire({"run", tiny("llama_tied"), "--raw", "-p", prompt, "--choices", "6", "-n", "70",
                   "--temp", "5", "--kv", codec, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = result.json();
    const int64_t prompt_pages = (*at(json, "prompt_tokens").as_int() + 63) / 64;
    EXPECT_LE(*at(at(json, "kv"), "pages").as_int(), prompt_pages + 2 * (2 + 1)) << codec;
    EXPECT_EQ(at(json, "choices").as_array()->size(), 6u);
  }
}

TEST(Choices, FitAStaticCacheToItsEnd) {
  for (const char* model : {"llama_tied", "gemma3"}) {
    const RunResult result =
        run_quire({"run", tiny(model), "--raw", "-p", "hello", "--choices", "3", "--ctx", "150",
                   "--temp", "5", "--cache", "static", "--logit-bias", "1=-1000", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

}  // namespace
}  // namespace quire::cli
