// quire window, and --overflow where prompts are answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using testing::HasSubstr;
using testing::Not;

std::string request(int turns, const std::string& more = "") {
  std::string messages = R"({"role":"system","content":"SENTINEL"})";
  for (int i = 0; i < turns; ++i) {
    messages += R"(,{"role":"user","content":"question )" + std::to_string(i) +
                R"( is here and long enough"},{"role":"assistant","content":"answer )" +
                std::to_string(i) + R"( is there"})";
  }
  return R"({"messages":[)" + messages + R"(,{"role":"user","content":"Now?"}])" + more + "}";
}

int64_t sum(const Json& rows) {
  int64_t total = 0;
  for (const Json& row : *rows.as_array()) total += *at(row, "tokens").as_int();
  return total;
}

TEST(WindowCommand, PrintsContextAndMessagesAsTheyWouldBeSent) {
  const std::string file = scratch_file("req.json", request(1, R"(,"max_tokens":8)"));
  const RunResult result =
      run_quire({"window", tiny("qwen3"), "plan", file, "--ctx", "200", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = result.json();
  const Json& context = at(json, "context");
  EXPECT_EQ(at(context, "status"), Json("fits"));
  EXPECT_EQ(at(at(context, "limit"), "ctx"), Json(200));
  EXPECT_EQ(at(context, "risk"), Json("none"));
  EXPECT_EQ(sum(at(context, "kept")), *at(context, "prompt_tokens").as_int());
  EXPECT_EQ(at(json, "messages").as_array()->size(), 4U);
}

TEST(WindowCommand, AChangedPlanSaysWhatWasDroppedAndWhatItRisks) {
  const std::string file = scratch_file("req.json", request(8, R"(,"context":{"step":0})"));
  const RunResult result = run_quire({"window", tiny("qwen3"), "plan", file, "--ctx", "250", "-n",
                                      "20", "--overflow", "truncate_left", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = result.json();
  const Json& context = at(json, "context");
  EXPECT_EQ(at(context, "status"), Json("changed"));
  EXPECT_GT(sum(at(context, "dropped")), 0);
  EXPECT_EQ(sum(at(context, "kept")), *at(context, "prompt_tokens").as_int());
  EXPECT_LE(*at(context, "prompt_tokens").as_int() + 20, 250);
  EXPECT_NE(at(context, "risk"), Json("none"));
  EXPECT_GT(*at(at(context, "cost"), "reprefill_tokens").as_int(), 0);
}

TEST(WindowCommand, ExitsWith4AndBothNumbersWhenNothingFits) {
  const std::string file = scratch_file("req.json", request(8));
  const RunResult result =
      run_quire({"window", tiny("qwen3"), "plan", file, "--ctx", "100", "--json"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("maximum context length is 100 tokens"));
  EXPECT_EQ(result.out, "");
}

TEST(WindowCommand, DrawsATableABarAndAPicture) {
  const std::string file = scratch_file("req.json", request(8));
  const std::string svg = scratch_path("window.svg");
  const RunResult result = run_quire({"window", tiny("qwen3"), "plan", file, "--ctx", "250", "-n",
                                      "20", "--overflow", "auto", "--svg", svg});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("W 250 | out 20 | usable 230 | prompt "));
  EXPECT_THAT(result.out, HasSubstr("part"));
  EXPECT_THAT(result.out, HasSubstr("pinned"));
  EXPECT_THAT(result.out, HasSubstr("first divergence: "));
  EXPECT_THAT(result.out, HasSubstr("room for the answer"));
  EXPECT_THAT(file_content(svg), HasSubstr("<svg "));
  EXPECT_THAT(file_content(svg), HasSubstr("</svg>"));
}

TEST(WindowCommand, ExplainSetsEveryPolicyBesideTheOthers) {
  const std::string file = scratch_file("req.json", request(8));
  const RunResult result = run_quire({"window", tiny("qwen3"), "explain", file, "--ctx", "250"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* policy : {"reject", "truncate_left", "truncate_right", "head_tail", "summarize",
                             "retrieve", "auto", "re-prefill", "stability"}) {
    EXPECT_THAT(result.out, HasSubstr(policy));
  }
}

TEST(WindowCommand, ComparesWithTheRequestBeforeAndNamesTheLineThatMoved) {
  const auto with_time = [](const std::string& time, int turns) {
    std::string text = request(turns);
    return text.replace(text.find("SENTINEL"), 8, "You help.\\nIt is " + time + ".");
  };
  const std::string before = scratch_file("before.json", with_time("09:14", 6));
  const std::string now = scratch_file("now.json", with_time("09:15", 7));
  const RunResult result = run_quire({"window", tiny("qwen3"), "plan", now, "--ctx", "256", "-n",
                                      "8", "--overflow", "truncate_left", "--previous", before});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("tokens of re-prefill each turn: 'It is 09:15.' in system"));
}

TEST(WindowCommand, CompactReplacesAFinishedTasksLogByItsState) {
  const std::string file = scratch_file("req.json", request(8));
  const std::string state =
      scratch_file("state.json", R"({"decisions":["64 slots"],"open":["spill"]})");
  const RunResult result = run_quire({"window", tiny("qwen3"), "compact", file, "--ctx", "256",
                                      "-n", "8", "--task-done", state, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = result.json();
  EXPECT_EQ(at(at(json, "saving"), "static_prefix_identical"), Json(true));
  EXPECT_GT(*at(at(json, "saving"), "saved_tokens").as_int(), 0);
  EXPECT_EQ(at(json, "messages").as_array()->size(), 2U);
}

TEST(WindowCommand, RefusesWhatItCannotReadInASentence) {
  const std::string good = scratch_file("req.json", request(1));
  const std::string bad = scratch_file("bad.json", R"({"messages":[{"content":"x"}]})");
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"window", tiny("qwen3"), "plan"}, 2, "REQ.json"},
      {{"window", tiny("qwen3"), "look", good}, 2, "'look'"},
      {{"window", tiny("qwen3"), "plan", bad}, 2, "messages[0].role"},
      {{"window", tiny("qwen3"), "plan", "nowhere.json"}, 3, "nowhere.json"},
      {{"window", tiny("qwen3"), "plan", good, "--overflow", "magic"}, 2, "magic"},
      {{"window", tiny("qwen3"), "plan", good, "--ctx", "999999"}, 4, "999999"},
      {{"window", tiny("qwen3"), "plan", good, "--task-done", good}, 2, "compact"}};
  for (const Case& c : cases) {
    const RunResult result = run_quire(c.args);
    EXPECT_EQ(result.exit_code, c.exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.says));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  }
}

TEST(Overflow, RunSaysOnStderrAndInJsonWhatWasDropped) {
  const std::string file = scratch_file("req.json", request(8));
  const RunResult result = run_quire({"run", tiny("qwen3"), "--messages", file, "--ctx", "250",
                                      "-n", "4", "--temp", "0", "--overflow", "auto", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("context: changed by auto"));
  const Json json = result.json();
  const Json& context = at(json, "context");
  EXPECT_EQ(at(context, "status"), Json("changed"));
  EXPECT_EQ(at(context, "limit"), Json("ctx"));
  EXPECT_EQ(sum(at(context, "kept")), *at(json, "prompt_tokens").as_int());
  EXPECT_FALSE(at(context, "dropped").as_array()->empty());
}

TEST(Overflow, APromptThatFitsGivesTheSameAnswerUnderEveryPolicy) {
  std::string first;
  for (const char* policy : {"reject", "auto", "retrieve", "head_tail"}) {
    const RunResult result = run_quire({"run", tiny("qwen3"), "-p", "Hello", "-n", "4", "--temp",
                                        "0", "--overflow", policy, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = result.json();
    EXPECT_EQ(at(at(json, "context"), "status"), Json("fits"));
    EXPECT_EQ(sum(at(at(json, "context"), "kept")), *at(json, "prompt_tokens").as_int());
    if (first.empty()) first = at(json, "tokens").dump();
    EXPECT_EQ(at(json, "tokens").dump(), first);
  }
}

TEST(Overflow, PlainTextIsCutAtTokensOrNeedsMessages) {
  const std::string text(400, 'x');
  const RunResult cut = run_quire({"run", tiny("qwen3"), "--raw", "-p", text, "--ctx", "64", "-n",
                                   "4", "--temp", "0", "--overflow", "truncate_left", "--json"});
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_LE(*at(cut.json(), "prompt_tokens").as_int(), 60);
  EXPECT_THAT(cut.err, HasSubstr("the beginning of the text is missing"));

  const RunResult refused = run_quire(
      {"run", tiny("qwen3"), "--raw", "-p", text, "--ctx", "64", "-n", "4", "--overflow", "auto"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("needs messages"));
}

TEST(Overflow, ChatGoesOnUnderAutoAndKeepsItsMessages) {
  std::string input;
  for (int i = 0; i < 12; ++i) input += "tell me about number " + std::to_string(i) + "\n";
  const std::string saved = scratch_path("chat.json");
  const RunResult result = run_quire({"chat", tiny("qwen3"), "--ctx", "200", "-n", "6", "--temp",
                                      "0", "--overflow", "auto", "--system", "SENTINEL"},
                                     {.in = input + "/window\n/save " + saved + "\n", .env = {}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("context: changed by auto"));
  EXPECT_THAT(result.out, HasSubstr("policy auto"));
  EXPECT_THAT(file_content(saved), HasSubstr("about number 0"));
  EXPECT_THAT(file_content(saved), HasSubstr("about number 11"));
}

TEST(Overflow, ChatsPinsAndDropsDecideWhatIsSent) {
  const RunResult result = run_quire(
      {"chat", tiny("llama_tied"), "--ctx", "400", "-n", "4", "--temp", "0"},
      {.in = "first\nsecond\n/drop 0\n/pin 2\n/pin 0\n/pin 99\n/policy magic\n/policy auto\n"
             "third\n/window\n",
       .env = {}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("messages 0 to 1 are no longer sent"));
  EXPECT_THAT(result.err, HasSubstr("message 2 stays whatever happens"));
  EXPECT_THAT(result.err, HasSubstr("message 0 is dropped"));
  EXPECT_THAT(result.err, HasSubstr("from 0 to 3"));
  EXPECT_THAT(result.err, HasSubstr("/policy wants one of"));
  EXPECT_THAT(result.err, HasSubstr("turns that do not fit: auto"));
  EXPECT_THAT(result.out, HasSubstr("history#2"));
  EXPECT_THAT(result.out, Not(HasSubstr("history#0")));
}

}  // namespace
}  // namespace quire::cli
