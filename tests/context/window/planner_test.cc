// What each policy does to a conversation, and what it says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "context/window/fit.h"
#include "context/window/moving_lines.h"
#include "context/window/raw_cut.h"
#include "context/window/task_state.h"
#include "context/window/window_testing.h"

namespace quire::context::window {
namespace {

using formats::Json;
using testing::HasSubstr;
using testing::Not;
using Status = KeepPlan::Status;

std::string words(const std::string& word, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += word + std::to_string(i) + " ";
  return out;
}

/// A system message, `turns` turns of about 200 tokens, a question.
Json::Array conversation(int turns) {
  Json::Array messages = {message("system", "You are the SENTINEL clerk.")};
  for (int i = 0; i < turns; ++i) {
    messages.push_back(message("user", "ask" + std::to_string(i) + " " + words("u", 20)));
    messages.push_back(message("assistant", "answer" + std::to_string(i) + " " + words("a", 20)));
  }
  messages.push_back(message("user", "What now?"));
  return messages;
}

class WindowPlans : public testing::Test {
 protected:
  Fitted fitted(WindowRequest request, int64_t window) {
    planner_ = Planner::create(text(), std::move(request)).value();
    return fit(*planner_, {.window = window, .by = "ctx", .trained = {}}).value();
  }
  Fitted fitted(Json::Array messages, Policy policy, int64_t window) {
    WindowRequest request = request_of(std::move(messages), policy);
    request.policy.step = 0;
    request.policy.max_tokens = 16;
    return fitted(std::move(request), window);
  }
  Error refused(WindowRequest request, int64_t window) {
    planner_ = Planner::create(text(), std::move(request)).value();
    return fit(*planner_, {.window = window, .by = "ctx", .trained = {}}).error();
  }
  TextModel text() const { return {small_tokenizer(), template_}; }
  int64_t count(const Json::Array& messages) const {
    ChatRequest request;
    request.messages = Json(messages);
    return prompt_tokens(small_tokenizer(), template_, request).value();
  }
  static std::vector<std::string> actions(const Fitted& f, const std::string& action) {
    std::vector<std::string> parts;
    for (const PartReport& row : f.report.parts) {
      if (row.action == action) parts.push_back(row.part);
    }
    return parts;
  }

  ChatTemplate template_ = parse_template(named_template("chatml"));
  std::unique_ptr<Planner> planner_;
};

TEST_F(WindowPlans, RejectNamesTheWindowAndThePrompt) {
  WindowRequest request = request_of(conversation(4), Policy::kReject);
  const int64_t tokens = count(conversation(4));
  const Error error = refused(request, 300);
  EXPECT_EQ(error.code, ErrorCode::kDoesNotFit);
  EXPECT_THAT(error.message,
              HasSubstr("This model's maximum context length is 300 tokens. However,"));
  EXPECT_THAT(error.message, HasSubstr(std::to_string(tokens)));
}

TEST_F(WindowPlans, RejectNeedsNoReserveButOneToken) {
  const int64_t tokens = count(conversation(2));
  WindowRequest request = request_of(conversation(2), Policy::kReject);
  EXPECT_EQ(fitted(request, tokens + 1).report.status, Status::kFits);
  refused(request, tokens);
}

TEST_F(WindowPlans, AMaximumThatCannotFitIsAnErrorUnlessItMayShrink) {
  WindowRequest request = request_of(conversation(1), Policy::kReject);
  request.policy.max_tokens = 5000;
  const int64_t tokens = count(conversation(1));
  EXPECT_THAT(refused(request, tokens + 100).message, HasSubstr("5000 more"));

  request.policy.output = Output::kShrink;
  const Fitted shrunk = fitted(request, tokens + 100);
  EXPECT_EQ(shrunk.report.max_tokens, 100);
  EXPECT_EQ(shrunk.report.max_tokens_before, 5000);
  EXPECT_EQ(*context_json(shrunk.report).find("status")->as_string(), "changed");
}

TEST_F(WindowPlans, TruncateLeftDropsTheOldestTurnsWhole) {
  const Fitted f = fitted(conversation(6), Policy::kTruncateLeft, 700);
  const std::vector<std::string> dropped = actions(f, "dropped");
  ASSERT_FALSE(dropped.empty());
  EXPECT_EQ(dropped.front(), "history#1");
  EXPECT_EQ(dropped.size() % 2, 0U);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("SENTINEL"));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("answer5"));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("ask0")));
}

TEST_F(WindowPlans, HeadTailKeepsTheFirstTurnAndTheNewest) {
  const Fitted f = fitted(conversation(6), Policy::kHeadTail, 900);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("ask0"));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("answer5"));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("ask1")));
  EXPECT_THAT(f.report.risk, HasSubstr("middle"));
}

TEST_F(WindowPlans, TruncateRightCutsTheQuestionsTailAndMarksIt) {
  Json::Array messages = {message("system", "SENTINEL"),
                          message("user", "first " + words("q", 300) + " LASTWORD")};
  const Fitted f = fitted(messages, Policy::kTruncateRight, 600);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("first q0"));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("LASTWORD")));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("tokens cut here"));
  EXPECT_GT(f.report.prompt_tokens, 500) << "what fits is used";
}

TEST_F(WindowPlans, SummarizeReplacesTheOldestTurnsAndSaysHowToUndoIt) {
  const Fitted f = fitted(conversation(6), Policy::kSummarize, 900);
  const std::vector<std::string> gone = actions(f, "summarized");
  ASSERT_GE(gone.size(), 2U);
  EXPECT_EQ(gone.front(), "history#1");
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("earlier messages, lossy, undo s1-"));
  int64_t before = 0, summary = 0;
  for (const PartReport& row : f.report.parts) {
    if (row.action == "summarized") before += row.before;
    if (row.part == "summary") summary = row.after;
  }
  EXPECT_GT(summary, 0);
  EXPECT_LE(summary, before / 4);
}

TEST_F(WindowPlans, RetrieveKeepsTheExcerptsThatBearOnTheQuestion) {
  Json::Array messages = conversation(6);
  messages[5] = message("user", "The launch code of the zebra vault is 7741.");
  messages.back() = message("user", "What is the code of the zebra vault?");
  const Fitted f = fitted(messages, Policy::kRetrieve, 500);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("7741"));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("[history#5]"));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("ask0")));
}

TEST_F(WindowPlans, RetrieveFindsTermsOfTwoCharactersInARunOfChinese) {
  Json::Array messages = conversation(4);
  messages[3] = message("user", "我们决定把键值缓存放在磁盘上。");
  messages.back() = message("user", "缓存在哪里?");
  const Fitted f = fitted(messages, Policy::kRetrieve, 500);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("放在磁盘上"));
}

Json::Array with_tools() {
  Json::Array messages = {message("system", "SENTINEL"), message("user", "Look at the files.")};
  for (int i = 0; i < 5; ++i) {
    const std::string id = "call" + std::to_string(i);
    messages.push_back(tool_call(id, "read_file", i == 3 ? "path0" : "path" + std::to_string(i)));
    messages.push_back(
        tool_result(id, "read_file", "content" + std::to_string(i) + words("x", 60)));
  }
  messages.push_back(message("assistant", "Done."));
  messages.push_back(message("user", "And now?"));
  return messages;
}

TEST_F(WindowPlans, AutoMasksOldResultsBeforeAnythingElse) {
  const int64_t whole = count(with_tools());
  const Fitted f = fitted(with_tools(), Policy::kAuto, whole);
  EXPECT_EQ(actions(f, "superseded"), std::vector<std::string>{"tool#3"});
  EXPECT_TRUE(actions(f, "dropped").empty());
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("[result of read_file: outdated by a later call, "
                                                "handle t3]"));
  EXPECT_THAT(f.report.risk, HasSubstr("stubs"));
}

TEST_F(WindowPlans, AutoKeepsTheNewestResultsWhole) {
  const Fitted f = fitted(with_tools(), Policy::kAuto, 1000);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("content4"));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("content3"));
  EXPECT_EQ(actions(f, "masked"), (std::vector<std::string>{"tool#5", "tool#7"}));
}

TEST_F(WindowPlans, AutoCutsTheQuestionOnlyWhenNothingElseIsLeft) {
  Json::Array messages = conversation(3);
  messages.back() = message("user", "HEAD " + words("q", 250) + " TAIL");
  const Fitted f = fitted(messages, Policy::kAuto, 500);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("HEAD"));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("TAIL"));
  EXPECT_EQ(actions(f, "cut"), std::vector<std::string>{"question"});
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("ask0")));
}

TEST_F(WindowPlans, WhatCannotBeDroppedIsNamedWithTheDeficit) {
  Json::Array messages = {message("system", "SENTINEL " + words("s", 100)), message("user", "Hi")};
  const Error error = refused(request_of(messages, Policy::kAuto), 256);
  EXPECT_THAT(error.message, HasSubstr("pinned: "));
  EXPECT_THAT(error.message, HasSubstr("system "));
  EXPECT_THAT(error.message, HasSubstr("too many"));
}

TEST_F(WindowPlans, ThinkingOfOldAnswersGoesBeforeTurnsDo) {
  Json::Array messages = conversation(2);
  messages[2].set("reasoning_content", "THOUGHT " + words("t", 100));
  const int64_t whole = count(messages);
  const Fitted f = fitted(messages, Policy::kAuto, whole);
  EXPECT_EQ(actions(f, "thinking_removed"), std::vector<std::string>{"history#2"});
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("THOUGHT")));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("answer0"));
}

TEST_F(WindowPlans, ExamplesGoByPriorityTheLastOfEqualOnesFirst) {
  Json::Array messages = {message("system", "SENTINEL")};
  for (int i = 0; i < 3; ++i) {
    for (const char* role : {"user", "assistant"}) {
      messages.push_back(message(role, "example" + std::to_string(i) + words("e", 30)));
      Json context;
      context.set("kind", "fewshot");
      context.set("priority", i == 1 ? 5 : 0);
      messages.back().set("x_context", std::move(context));
    }
  }
  messages.push_back(message("user", "Go on."));
  const Fitted f = fitted(messages, Policy::kAuto, 620);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("example1"));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("example2")));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("x_context")));
}

TEST_F(WindowPlans, ChunksGoWorstFirstAndABudgetCapsThem) {
  WindowRequest request = request_of(conversation(1), Policy::kAuto);
  request.policy.max_tokens = 16;
  for (int i = 0; i < 4; ++i) {
    request.chunks.push_back({.id = "c" + std::to_string(i),
                              .source = "doc",
                              .text = "chunk" + std::to_string(i) + words("c", 20),
                              .score = i == 2 ? 9.0 : static_cast<double>(i),
                              .message = std::nullopt});
  }
  request.policy.step = 0;
  const Fitted f = fitted(request, 520);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("chunk2"));
  EXPECT_THAT(f.prompt.rendered.text, Not(HasSubstr("chunk0")));
  EXPECT_EQ(actions(f, "dropped").front(), "rag#c0");
}

/// A conversation that grows by turns, some with a call and its result: in which turns less was
/// found again than had been sent before.
std::vector<bool> rebuilt_turns(const TextModel& text, Policy policy, int turns, int64_t window) {
  Json::Array messages = {message("system", "You are the SENTINEL clerk.")};
  std::vector<bool> rebuilt;
  std::vector<TokenId> before;
  for (int turn = 0; turn < turns; ++turn) {
    messages.push_back(message("user", "ask" + std::to_string(turn) + " " + words("u", turn % 9)));
    if (turn % 3 == 0) {
      const std::string id = "call" + std::to_string(turn);
      messages.push_back(tool_call(id, "read_file", "path" + std::to_string(turn % 5)));
      messages.push_back(tool_result(id, "read_file", words("x", 20 + turn % 13)));
    }
    WindowRequest request = request_of(messages, policy);
    request.policy.max_tokens = 16;
    const auto planner = Planner::create(text, std::move(request)).value();
    const auto fitted = fit(*planner, {.window = window, .by = "ctx", .trained = {}});
    EXPECT_TRUE(fitted.ok()) << turn << ": " << fitted.error().message;
    if (!fitted.ok()) return rebuilt;
    // The generation prompt gives way to the answer.
    rebuilt.push_back(common_tokens(before, fitted->prompt.tokens) <
                      static_cast<int64_t>(before.size()) - 24);
    before = fitted->prompt.tokens;
    messages.push_back(message("assistant", "answer" + std::to_string(turn) + words("a", 8)));
  }
  return rebuilt;
}

TEST_F(WindowPlans, ARebuiltPromptIsFoundAgainInTheNextTurn) {
  for (const Policy policy :
       {Policy::kTruncateLeft, Policy::kHeadTail, Policy::kSummarize, Policy::kAuto}) {
    const std::vector<bool> rebuilt = rebuilt_turns(text(), policy, 60, 2400);
    int rebuilds = 0;
    for (size_t turn = 0; turn < rebuilt.size(); ++turn) {
      rebuilds += rebuilt[turn];
      EXPECT_FALSE(turn > 0 && rebuilt[turn] && rebuilt[turn - 1]) << name(policy) << " " << turn;
    }
    EXPECT_GE(rebuilds, 2) << name(policy);
    EXPECT_LE(rebuilds, 20) << name(policy);
  }
}

TEST_F(WindowPlans, ChunksThatChangeWithTheQuestionMoveNoCut) {
  std::vector<size_t> kept;
  for (int chunks = 1; chunks < 5; ++chunks) {
    WindowRequest request = request_of(conversation(12), Policy::kTruncateLeft);
    request.policy.max_tokens = 16;
    for (int i = 0; i < chunks; ++i) {
      request.chunks.push_back({.id = "c" + std::to_string(i),
                                .source = "doc",
                                .text = words("c", 8),
                                .score = 1.0,
                                .message = std::nullopt});
    }
    const Fitted f = fitted(request, 1600);
    EXPECT_TRUE(actions(f, "dropped").size() > 1 && actions(f, "cut").empty());
    kept.push_back(f.chat.messages.as_array()->size());
  }
  EXPECT_EQ(kept, std::vector<size_t>(4, kept.front()));
}

TEST_F(WindowPlans, RolesThatMustAlternateExtendTheDrop) {
  template_ = parse_template(named_template("alternating"));
  Json::Array messages = conversation(4);
  Json context;
  context.set("pin", true);
  messages[3].set("x_context", std::move(context));
  WindowRequest request = request_of(messages, Policy::kTruncateLeft);
  request.chat.special_tokens = named_template("alternating").special_tokens;
  request.policy.max_tokens = 16;
  const Fitted f = fitted(request, 700);
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("ask1"));
  EXPECT_THAT(f.prompt.rendered.text, HasSubstr("What now?"));
}

TEST_F(WindowPlans, ADateInTheSystemMessageIsPriced) {
  Json::Array messages = conversation(3);
  messages[0] = message("system", "You help.\nToday is 2026-11-30.\nBe brief.");
  const auto planner = Planner::create(text(), request_of(messages, Policy::kReject)).value();
  const std::vector<MovingLine> lines = lines_that_look_moving(*planner);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].line, "Today is 2026-11-30.");
  EXPECT_EQ(lines[0].part, "system");
  EXPECT_GT(lines[0].reprefill_tokens, 300);
}

TEST_F(WindowPlans, ALineThatChangedBetweenTwoRequestsIsFoundAndPriced) {
  Json::Array messages = conversation(3);
  messages[0] = message("system", "You help.\nIt is 09:14.\nBe brief.");
  const auto before = Planner::create(text(), request_of(messages, Policy::kReject)).value();
  messages[0] = message("system", "You help.\nIt is 09:15.\nBe brief.");
  messages.push_back(message("assistant", "This."));
  messages.push_back(message("user", "And then?"));
  const auto now = Planner::create(text(), request_of(messages, Policy::kReject)).value();
  const auto moved = line_that_moved(*before, *now);
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(moved->line, "It is 09:15.");
  EXPECT_TRUE(moved->observed);
  EXPECT_THAT(describe(*moved), HasSubstr("tokens of re-prefill each turn"));
}

TEST_F(WindowPlans, AReminderThatMovesAlongIsRecognised) {
  const auto with_reminder = [](int turns) {
    Json::Array messages = conversation(turns);
    messages.insert(messages.end() - 1, message("system", "Reminder: answer in French only."));
    return request_of(messages, Policy::kReject);
  };
  const auto before = Planner::create(text(), with_reminder(2)).value();
  const auto now = Planner::create(text(), with_reminder(4)).value();
  const auto moved = line_that_moved(*before, *now);
  // It stood right before the question: nothing behind it was cached.
  EXPECT_FALSE(moved && moved->reprefill_tokens > 60);
}

TEST_F(WindowPlans, AConversationThatOnlyGrowsHasNoMovingLine) {
  const auto before = Planner::create(text(), request_of(conversation(3), Policy::kReject)).value();
  Json::Array messages = conversation(3);
  messages.push_back(message("assistant", "This."));
  messages.push_back(message("user", "And then?"));
  const auto now = Planner::create(text(), request_of(messages, Policy::kReject)).value();
  EXPECT_FALSE(line_that_moved(*before, *now).has_value());
}

TEST(MovingLines, DatesTimesAndIdsLookMovingPlainNumbersDoNot) {
  for (const char* line :
       {"2026-11-30", "at 9:05 today", "30 November 2026", "Nov 30", "1764528000", "2026年11月30日",
        "id 123e4567-e89b-12d3-a456-426614174000"}) {
    EXPECT_TRUE(looks_moving(line)) << line;
  }
  for (const char* line :
       {"You have 128 tools.", "Rule 12: march on", "May I help?", "3.14159", "ratio 16 of 9"}) {
    EXPECT_FALSE(looks_moving(line)) << line;
  }
}

TEST_F(WindowPlans, AFinishedTasksLogBecomesItsStateAndThePrefixStays) {
  const auto planner =
      Planner::create(text(), request_of(conversation(5), Policy::kReject)).value();
  const TaskState state =
      read_task_state(Json::parse(R"({"decisions":["use pages"],"open":["spill"],
                                      "facts":[{"text":"64 slots","src":"history#2"}]})",
                                  "state")
                          .value(),
                      "state.json")
          .value();
  const Rebuilt rebuilt =
      replace_log(*planner, state, {.window = 4096, .by = "ctx", .trained = {}}).value();
  EXPECT_TRUE(rebuilt.static_prefix_identical);
  const std::string& prompt = rebuilt.fitted.prompt.rendered.text;
  EXPECT_THAT(prompt, HasSubstr("use pages"));
  EXPECT_THAT(prompt, HasSubstr("64 slots (history#2)"));
  EXPECT_THAT(prompt, HasSubstr("What now?"));
  EXPECT_THAT(prompt, Not(HasSubstr("ask0")));
  int64_t after = 0;
  for (const PartReport& row : rebuilt.fitted.report.parts) after += row.after;
  EXPECT_EQ(after, rebuilt.fitted.report.prompt_tokens);
}

TEST(TaskStates, AreRefusedWhenTheyHoldNothingOrSomethingElse) {
  for (const char* document : {"{}", "[]", R"({"decisions":"x"})", R"({"note":["x"]})",
                               R"({"facts":[{"src":"x"}]})", R"({"open":[1]})"}) {
    const auto state = read_task_state(Json::parse(document, "s").value(), "state.json");
    ASSERT_FALSE(state.ok()) << document;
    EXPECT_THAT(state.error().message, HasSubstr("state.json"));
  }
}

TEST(WindowRequests, MistakesAreNamedByTheirField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"messages":[]})", "messages must not be empty"},
      {R"({"messages":[1]})", "messages[0]"},
      {R"({"messages":[{"role":"user","content":"x","x_context":{"kind":"tools"}}]})",
       "messages[0].x_context.kind"},
      {R"({"messages":[{"role":"user","content":"x","x_context":{"colour":1}}]})", "colour"},
      {R"({"messages":[{"role":"user","content":"x"}],"context":{"policy":"magic"}})",
       "context.policy"},
      {R"({"messages":[{"role":"user","content":"x"}],"context":{"step":-1}})", "context.step"},
      {R"({"messages":[{"role":"user","content":"x"}],"context":{"budgets":{"system":1}}})",
       "context.budgets.system"},
      {R"({"messages":[{"role":"user","content":"x"}],"max_tokens":0})", "max_tokens"},
      {R"({"messages":[{"role":"user","content":"x"}],"truncation":"middle"})", "truncation"},
      {R"({"messages":[{"role":"user","content":"x"}],"context":{"rag":{"chunks":[{}]}}})",
       "context.rag.chunks[0]"},
      {R"({"prompt":"x"})", "messages"}};
  for (const auto& [document, named] : cases) {
    const auto request = read_window_request(Json::parse(document, "r").value(), "r.json");
    ASSERT_FALSE(request.ok()) << document;
    EXPECT_EQ(request.error().code, ErrorCode::kUsage);
    EXPECT_THAT(request.error().message, HasSubstr(named));
  }
}

TEST(WindowRequests, APinThatNamesNoPartIsAnError) {
  const ChatTemplate chat_template = parse_template(named_template("chatml"));
  WindowRequest request = request_of({message("user", "x")}, Policy::kAuto);
  request.policy.pins = {"history#9"};
  const auto planner = Planner::create({small_tokenizer(), chat_template}, request);
  ASSERT_FALSE(planner.ok());
  EXPECT_THAT(planner.error().message, HasSubstr("history#9"));
}

TEST(RawCuts, KeepTheEndsThatThePolicySays) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 100; ++i) tokens.push_back(TokenId{i});
  Report report;
  report.limits.window = 40;
  report.budget = {10, 30};
  const auto left = cut_raw(small_tokenizer(), tokens, Policy::kTruncateLeft, report).value();
  EXPECT_EQ(left.size(), 30U);
  EXPECT_EQ(left.back().value, 99);
  const auto right = cut_raw(small_tokenizer(), tokens, Policy::kTruncateRight, report).value();
  EXPECT_EQ(right.front().value, 0);
  EXPECT_EQ(right.back().value, 29);
  const auto ends = cut_raw(small_tokenizer(), tokens, Policy::kHeadTail, report).value();
  EXPECT_EQ(ends.front().value, 0);
  EXPECT_EQ(ends.back().value, 99);
  EXPECT_EQ(report.parts.front().action, "cut");
  EXPECT_EQ(cut_raw(small_tokenizer(), tokens, Policy::kAuto, report).error().code,
            ErrorCode::kUsage);
}

/// The sentinel in the system message survives every policy at every window, or the request is
/// refused.
TEST(Sentinels, SurviveEveryPolicyAtEveryWindowFrom256) {
  for (const char* name : {"chatml", "alternating", "systemless"}) {
    const ChatTemplate chat_template = parse_template(named_template(name));
    for (const Policy policy :
         {Policy::kReject, Policy::kTruncateLeft, Policy::kTruncateRight, Policy::kHeadTail,
          Policy::kSummarize, Policy::kRetrieve, Policy::kAuto}) {
      WindowRequest request = request_of(conversation(8), policy);
      request.chat.special_tokens = named_template(name).special_tokens;
      const auto planner = Planner::create({small_tokenizer(), chat_template}, request).value();
      for (int64_t window = 256; window < 3000; window += 59) {
        const auto f = fit(*planner, {.window = window, .by = "ctx", .trained = {}});
        if (!f.ok()) {
          EXPECT_EQ(f.error().code, ErrorCode::kDoesNotFit);
          continue;
        }
        EXPECT_THAT(f->prompt.rendered.text, HasSubstr("SENTINEL")) << name << window;
        EXPECT_LE(f->report.prompt_tokens + f->report.budget.reserve, window);
      }
    }
  }
}

}  // namespace
}  // namespace quire::context::window
