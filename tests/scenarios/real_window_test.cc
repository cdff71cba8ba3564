// The window manager on the real model: a conversation that is far longer than its window.
#include <gtest/gtest.h>

#include <algorithm>

#include "context/window/fit.h"
#include "context/window/tool_results.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "engine/tiny_models.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

using context::window::Fitted;
using context::window::Planner;
using context::window::Policy;
using formats::Json;

constexpr int64_t kWindow = 1024;
constexpr int64_t kNewTokens = 4;

Json message(const std::string& role, const std::string& content) {
  Json json;
  json.set("role", role);
  json.set("content", content);
  return json;
}

Json call(int turn) {
  Json function, call, json;
  function.set("name", "read_file");
  function.set("arguments", "{\"path\":\"file" + std::to_string(turn % 7) + "\"}");
  call.set("id", "call" + std::to_string(turn));
  call.set("type", "function");
  call.set("function", std::move(function));
  json = message("assistant", "Reading.");
  json.set("tool_calls", Json(Json::Array{std::move(call)}));
  return json;
}

Json result(int turn) {
  std::string text;
  for (int line = 0; line < 6; ++line) {
    text += "line " + std::to_string(line) + " of turn " + std::to_string(turn) + " holds value " +
            std::to_string(turn * 31 + line) + ".\n";
  }
  Json json = message("tool", text);
  json.set("tool_call_id", "call" + std::to_string(turn));
  return json;
}

/// One turn's messages before its answer.
void ask(Json::Array& messages, int turn) {
  messages.push_back(
      message("user", "Question " + std::to_string(turn) + ": what is in the file?"));
  if (turn % 3 != 0) return;
  messages.push_back(call(turn));
  messages.push_back(result(turn));
}

class LongRealWindow : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = real_model("smollm2");
    QUIRE_SKIP_WITHOUT("smollm2", path);
    model_ = load_or_die(*path);
    EngineOptions options;
    options.threads = 2;
    options.context_tokens = kWindow;
    engine_ = engine_or_die(*model_, options);
  }

  Fitted fitted(const Json::Array& messages) {
    context::window::WindowRequest request;
    request.chat.messages = Json(messages);
    request.contexts.resize(messages.size());
    const auto special = model_->tokenizer().special_tokens();
    request.chat.special_tokens = {special.begin(), special.end()};
    request.policy.policy = Policy::kAuto;
    request.policy.max_tokens = kNewTokens;
    const auto planner =
        Planner::create({model_->tokenizer(), *model_->chat_template()}, request).value();
    auto fitted = context::window::fit(*planner, {.window = kWindow, .by = "ctx", .trained = {}});
    EXPECT_TRUE(fitted.ok()) << fitted.error().message;
    return std::move(fitted).value();
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(LongRealWindow, TwoHundredTurnsWithToolsRunToTheirEndUnderAuto) {
  Json::Array messages = {message("system", "You are a SENTINEL-77 clerk. Answer in one word.")};
  Sequence sequence = engine_->create_sequence();
  std::vector<bool> compacted;
  int64_t previous = 0;
  for (int turn = 0; turn < 200; ++turn) {
    ask(messages, turn);
    const Fitted sent = fitted(messages);
    ASSERT_TRUE(context::window::orphaned_results(*sent.messages.as_array()).empty()) << turn;
    ASSERT_NE(sent.prompt.rendered.text.find("SENTINEL-77"), std::string::npos) << turn;
    ASSERT_LE(sent.report.prompt_tokens + kNewTokens, kWindow) << turn;
    GenerateOptions options;
    options.sampling.temperature = 0.0;
    options.max_tokens = kNewTokens;
    const auto answer = generate(*engine_, sequence, sent.prompt.tokens, options,
                                 {.on_prefill = {}, .on_text = {}});
    ASSERT_TRUE(answer.ok()) << turn << ": " << answer.error().message;
    // Less was found again than the turn before had sent: the prompt was rebuilt.
    compacted.push_back(turn > 0 && answer->reuse.cached_tokens < previous - 16);
    previous = sent.report.prompt_tokens;
    messages.push_back(message("assistant", answer->text.empty() ? "Yes." : answer->text));
  }
  engine_->check();
  // After a rebuild the next turn reads only what is new.
  int rebuilds = 0, in_a_row = 0;
  for (size_t turn = 0; turn + 1 < compacted.size(); ++turn) {
    rebuilds += compacted[turn];
    in_a_row += compacted[turn] && compacted[turn + 1];
  }
  EXPECT_GE(rebuilds, 1);
  EXPECT_LE(rebuilds, 60);
  EXPECT_EQ(in_a_row, 0) << "of " << rebuilds;
}

}  // namespace
}  // namespace quire::engine
