// Conversations that do not fit, through the server: what policies keep, what replies report.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;
using testing::HasSubstr;

class ServerWindow : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TinyServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static RawResponse post(std::string_view path, const Json& body) {
    return server_->post(path, body.dump());
  }
  static Json reply(std::string_view path, const Json& body) {
    const RawResponse response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }

  /// A system message, many turns, and a question.
  static Json long_chat(int turns) {
    Json messages(Json::Array{});
    const auto say = [&](std::string_view role, std::string content) {
      Json message;
      message.set("role", role);
      message.set("content", std::move(content));
      messages.push_back(std::move(message));
    };
    say("system", "SENTINEL: be brief.");
    for (int i = 0; i < turns; ++i) {
      say("user", fmt::format("Question number {} about the sea and its ships?", i));
      say("assistant", fmt::format("Answer number {}: ships sail on the sea.", i));
    }
    say("user", "And what was the last one?");
    Json body;
    body.set("messages", std::move(messages));
    body.set("max_tokens", 8);
    body.set("temperature", 0);
    return body;
  }

  static Json with_policy(Json body, std::string_view policy) {
    Json context;
    context.set("policy", policy);
    body.set("context", std::move(context));
    return body;
  }

  static int64_t sum_of_kept(const Json& context) {
    int64_t sum = 0;
    for (const Json& part : *at(context, "kept").as_array()) {
      sum += *at(part, "tokens").as_int();
    }
    return sum;
  }

 private:
  static inline TinyServer* server_ = nullptr;
};

constexpr int kTooManyTurns = 40;

TEST_F(ServerWindow, RefusesWhatDoesNotFitInTheWordsThatClientsLookFor) {
  const RawResponse refused = post("/v1/chat/completions", long_chat(kTooManyTurns));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(text_at(refused.json(), "error.code"), "context_length_exceeded");
  EXPECT_THAT(text_at(refused.json(), "error.message"),
              HasSubstr("This model's maximum context length is"));
}

TEST_F(ServerWindow, KeepsSystemAndQuestionUnderEveryPolicyAndSaysWhatWent) {
  for (const char* policy : {"truncate_left", "head_tail", "retrieve", "auto"}) {
    SCOPED_TRACE(policy);
    const Json answer =
        reply("/v1/chat/completions", with_policy(long_chat(kTooManyTurns), policy));
    const Json& context = at(answer, "context");
    EXPECT_EQ(text_at(context, "status"), "changed");
    EXPECT_EQ(text_at(context, "policy"), policy);
    EXPECT_EQ(at(context, "prompt_tokens"), at(answer, "usage.prompt_tokens"));
    EXPECT_EQ(sum_of_kept(context), *at(context, "prompt_tokens").as_int());
    EXPECT_FALSE(at(context, "dropped").as_array()->empty());
    EXPECT_NE(text_at(context, "risk"), "none");

    const Json plan = reply("/v1/context/plan", with_policy(long_chat(kTooManyTurns), policy));
    const Json::Array& messages = *at(plan, "messages").as_array();
    EXPECT_THAT(text_at(messages.front(), "content"), HasSubstr("SENTINEL: be brief."));
    EXPECT_THAT(text_at(messages.back(), "content"), HasSubstr("And what was the last one?"));
    EXPECT_EQ(at(plan, "context.prompt_tokens"), at(context, "prompt_tokens"));
  }
}

TEST_F(ServerWindow, KeepsWhatAMessagePinsAndShowsTheTemplateNoneOfIt) {
  const auto planned = [](const Json& body) {
    return reply("/v1/context/plan", with_policy(body, "truncate_left"));
  };
  Json body = long_chat(kTooManyTurns);
  const std::string early = "Question number 2 about";
  EXPECT_THAT(at(planned(body), "messages").dump(), testing::Not(HasSubstr(early)));

  Json messages = *body.find("messages");
  (*messages.as_array())[5].set("x_context", json(R"({"pin":true,"priority":3})"));
  body.set("messages", std::move(messages));
  const std::string sent = at(planned(body), "messages").dump();
  EXPECT_THAT(sent, HasSubstr(early));
  EXPECT_THAT(sent, testing::Not(HasSubstr("Question number 3 about")));
  EXPECT_THAT(sent, testing::Not(HasSubstr("x_context")));

  const Json answer = reply("/v1/chat/completions", with_policy(body, "truncate_left"));
  EXPECT_EQ(text_at(answer, "context.status"), "changed");
  EXPECT_EQ(sum_of_kept(at(answer, "context")), at(answer, "usage.prompt_tokens").as_int());
}

TEST_F(ServerWindow, HonoursTruncationAsOpenAiSpellsIt) {
  Json body = long_chat(kTooManyTurns);
  body.set("truncation", "auto");
  EXPECT_EQ(text_at(reply("/v1/chat/completions", body), "context.status"), "changed");
  body.set("truncation", "disabled");
  EXPECT_EQ(post("/v1/chat/completions", body).status, 400);
}

TEST_F(ServerWindow, SendsWhatFitsAsItCame) {
  const Json plain = reply("/v1/chat/completions", long_chat(2));
  const Json asked = reply("/v1/chat/completions", with_policy(long_chat(2), "auto"));
  EXPECT_EQ(text_at(asked, "context.status"), "fits");
  EXPECT_EQ(at(asked, "usage.prompt_tokens"), at(plain, "usage.prompt_tokens"));
  EXPECT_EQ(text_at(asked, "choices.0.message.content"),
            text_at(plain, "choices.0.message.content"));
}

TEST_F(ServerWindow, ReportsTheWindowInTheLastChunkOfAStream) {
  Json body = with_policy(long_chat(kTooManyTurns), "truncate_left");
  body.set("stream", true);
  const RawResponse response = post("/v1/chat/completions", body);
  ASSERT_EQ(response.status, 200);
  const std::vector<std::string> events = response.events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(text_at(json(events[events.size() - 2]), "context.status"), "changed");
}

TEST_F(ServerWindow, LowersTheAnswerToWhatFitsIfItMay) {
  Json body = long_chat(2);
  body.set("max_tokens", 100'000);
  EXPECT_EQ(post("/v1/chat/completions", body).status, 400);
  Json context;
  context.set("output", "shrink");
  body.set("context", std::move(context));
  body.set("stop", "e");  // short, whatever is allowed
  const Json answer = reply("/v1/chat/completions", body);
  EXPECT_EQ(at(answer, "context.max_tokens_before"), Json(100'000));
  EXPECT_LT(*at(answer, "context.max_tokens").as_int(), 100'000);
}

TEST_F(ServerWindow, CountsPartsThatSumToThePrompt) {
  const Json count = reply("/v1/context/count", long_chat(3));
  int64_t sum = 0;
  for (const Json& part : *at(count, "parts").as_array()) sum += *at(part, "tokens").as_int();
  EXPECT_EQ(sum, *at(count, "prompt_tokens").as_int());
  EXPECT_EQ(at(count, "prompt_tokens"),
            at(reply("/v1/chat/completions", long_chat(3)), "usage.prompt_tokens"));
}

TEST_F(ServerWindow, CompactsBelowTheLowWatermarkAndReplacesAFinishedTasksLog) {
  const Json compact = reply("/v1/context/compact", long_chat(60));
  const Json whole = reply("/v1/context/count", long_chat(60));
  EXPECT_LT(*at(compact, "context.prompt_tokens").as_int(), *at(whole, "prompt_tokens").as_int());
  Json body = long_chat(20);
  body.set("task_done", json(R"({"decisions": ["Ships sail."], "open": ["Which sea?"]})"));
  const Json rebuilt = reply("/v1/context/compact", body);
  EXPECT_EQ(at(rebuilt, "static_prefix_identical"), Json(true));
  EXPECT_THAT(at(rebuilt, "messages").dump(), HasSubstr("Ships sail."));
}

TEST_F(ServerWindow, NamesTheFieldThatIsWrong) {
  const auto param_of = [&](std::string_view member) {
    Json body = long_chat(1);
    const Json members = json(member);
    for (const auto& [name, value] : *members.as_object()) body.set(name, value);
    const RawResponse response = post("/v1/chat/completions", body);
    EXPECT_EQ(response.status, 400) << member;
    return text_at(response.json(), "error.param");
  };
  EXPECT_EQ(param_of(R"({"context": {"policy": "forget"}})"), "context.policy");
  EXPECT_EQ(param_of(R"({"context": {"step": -1}})"), "context.step");
  EXPECT_EQ(param_of(R"({"truncation": "sometimes"})"), "truncation");
  EXPECT_EQ(param_of(R"({"messages": [{"role": "user", "content": "x",
                                       "x_context": {"kind": "nonsense"}}]})"),
            "messages[0].x_context.kind");
}

TEST_F(ServerWindow, CutsATextWithoutMessagesAtTokens) {
  Json body;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += fmt::format("word{} ", i);
  body.set("prompt", text);
  body.set("max_tokens", 4);
  EXPECT_EQ(post("/v1/completions", body).status, 400);
  const Json cut = reply("/v1/completions", with_policy(body, "truncate_left"));
  EXPECT_EQ(text_at(cut, "context.status"), "changed");
  const RawResponse refused = post("/v1/completions", with_policy(body, "summarize"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(text_at(refused.json(), "error.param"), "context.policy");
}

}  // namespace
}  // namespace quire::server
