// The engine's thread: what callers of any thread see of it.
#include "engine/engine_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens prompt_of(int32_t first, int64_t count) {
  Tokens tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back({first + static_cast<int32_t>(i % 50)});
  return tokens;
}

GenerateOptions greedy(std::optional<int64_t> count) {
  GenerateOptions options;
  options.sampling.temperature = 0.0;
  options.max_tokens = count;
  // The end of generation never comes by itself.
  options.sampling.logit_bias = {{TokenId{0}, -1e6}, {TokenId{1}, -1e6}, {TokenId{2}, -1e6}};
  return options;
}

/// Keeps what it hears.
class Heard : public RequestListener {
 public:
  struct State {
    std::promise<void> started;
    std::promise<Result<Generated>> done;
    std::string text;
    Tokens tokens;
    bool was_started = false;
  };
  explicit Heard(State& state) : state_(state) {}
  void on_start(const Reuse&) override {
    if (!std::exchange(state_.was_started, true)) state_.started.set_value();
  }
  void on_prefill(int64_t, int64_t) override {}
  void on_token(const TokenEvent& event) override {
    state_.text += event.text;
    state_.tokens.push_back(event.token);
  }
  void on_done(Result<Generated> answer) override { state_.done.set_value(std::move(answer)); }

 private:
  State& state_;
};

class EngineLoopTest : public testing::Test {
 protected:
  void SetUp() override { model_ = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied"); }

  Generated alone(const Request& request) const {
    const auto engine = engine_or_die(*model_, {});
    Sequence sequence = engine->create_sequence();
    return generate(*engine, sequence, request.prompt, request.options, {}).value();
  }

  static Request request_of(Tokens prompt, GenerateOptions options, std::string tenant = {}) {
    Request request;
    request.tenant = std::move(tenant);
    request.prompt = std::move(prompt);
    request.options = std::move(options);
    return request;
  }

  std::unique_ptr<Model> model_;
};

TEST_F(EngineLoopTest, AnswersManyCallersAsEachAlone) {
  const auto engine = engine_or_die(*model_, {.prefill_chunk = 32});
  EngineLoop loop(*engine, {});
  constexpr size_t kCallers = 12;
  std::vector<Heard::State> heard(kCallers);
  std::vector<std::thread> callers;
  const auto request = [](size_t i) {
    return request_of(prompt_of(static_cast<int32_t>(20 + i % 3), 30 + 20 * static_cast<int>(i)),
                      greedy(10 + static_cast<int>(i)));
  };
  for (size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back(
        [&, i] { ASSERT_TRUE(loop.submit(request(i), std::make_unique<Heard>(heard[i])).ok()); });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < kCallers; ++i) {
    const Generated got = heard[i].done.get_future().get().value();
    const Generated expected = alone(request(i));
    EXPECT_EQ(got.tokens, expected.tokens) << i;
    EXPECT_EQ(got.text, expected.text);
    EXPECT_EQ(heard[i].text, expected.text);
    EXPECT_EQ(heard[i].tokens, expected.tokens);
  }
  const LoopStats stats = loop.stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.pages.held_by_sequences, 0);
  EXPECT_GT(stats.pages.held_by_tree, 0);
  EXPECT_EQ(stats.counters.ended_length, static_cast<int64_t>(kCallers));
}

TEST_F(EngineLoopTest, RefusesWhatCanNeverRunWithTheNumbers) {
  const auto engine = engine_or_die(*model_, {.context_tokens = 100});
  EngineLoop loop(*engine, {});
  Heard::State never;
  const auto refusal = [&](Request request) {
    return loop.submit(std::move(request), std::make_unique<Heard>(never)).error();
  };
  const Error long_prompt = refusal(request_of(prompt_of(20, 150), greedy(1)));
  EXPECT_EQ(long_prompt.code, ErrorCode::kDoesNotFit);
  EXPECT_THAT(long_prompt.message,
              testing::AllOf(testing::HasSubstr("150"), testing::HasSubstr("100")));
  const Error long_answer = refusal(request_of(prompt_of(20, 50), greedy(51)));
  EXPECT_EQ(long_answer.code, ErrorCode::kDoesNotFit);
  EXPECT_THAT(long_answer.message, testing::HasSubstr("101"));
  EXPECT_EQ(refusal(request_of({}, greedy(1))).code, ErrorCode::kUsage);
  EXPECT_EQ(refusal(request_of({TokenId{-1}}, greedy(1))).code, ErrorCode::kUsage);
  EXPECT_EQ(refusal(request_of({TokenId{1 << 30}}, greedy(1))).code, ErrorCode::kUsage);
  GenerateOptions hot = greedy(1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(refusal(request_of(prompt_of(20, 5), hot)).code, ErrorCode::kUsage);
}

TEST_F(EngineLoopTest, CancelEndsARunningAndAWaitingRequest) {
  const auto engine = engine_or_die(*model_, {});
  EngineLoop loop(*engine, {.scheduler = {.max_sequences = 1}});
  Heard::State running, waiting;
  const RequestId first = loop.submit(request_of(prompt_of(20, 40), greedy(std::nullopt)),
                                      std::make_unique<Heard>(running))
                              .value();
  const RequestId second = loop.submit(request_of(prompt_of(30, 40), greedy(std::nullopt)),
                                       std::make_unique<Heard>(waiting))
                               .value();
  running.started.get_future().wait();
  loop.cancel(second);
  const Generated never_begun = waiting.done.get_future().get().value();
  EXPECT_EQ(never_begun.finish, FinishReason::kInterrupted);
  EXPECT_TRUE(never_begun.tokens.empty());
  loop.cancel(first);
  EXPECT_EQ(running.done.get_future().get().value().finish, FinishReason::kInterrupted);
  loop.cancel(first);  // has ended
  loop.cancel(RequestId{12345});
  EXPECT_EQ(loop.stats().pages.held_by_sequences, 0);
  EXPECT_EQ(loop.stats().counters.ended_cancelled, 2);
}

TEST_F(EngineLoopTest, AFullQueueIsBusyButTakesOneOfATenantWithNone) {
  const auto engine = engine_or_die(*model_, {});
  std::vector<Heard::State> heard(5);  // outlive the loop, which tells them of the end
  EngineLoop loop(*engine, {.scheduler = {.max_sequences = 1}, .max_queue = 2});
  const auto submit = [&](size_t i, std::string tenant) {
    return loop.submit(request_of(prompt_of(20, 40), greedy(std::nullopt), std::move(tenant)),
                       std::make_unique<Heard>(heard[i]));
  };
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(submit(i, "greedy").ok());
  const Error full = submit(3, "greedy").error();
  EXPECT_EQ(full.code, ErrorCode::kBusy);
  EXPECT_THAT(full.message, testing::HasSubstr("3 requests"));
  EXPECT_TRUE(submit(4, "modest").ok());
  EXPECT_EQ(submit(3, "modest").error().code, ErrorCode::kBusy);
}

TEST_F(EngineLoopTest, StopsWithinItsGraceAndTellsEveryListener) {
  const auto engine = engine_or_die(*model_, {});
  EngineLoop loop(*engine, {});
  Heard::State quick, endless;
  ASSERT_TRUE(
      loop.submit(request_of(prompt_of(20, 40), greedy(3)), std::make_unique<Heard>(quick)).ok());
  quick.done.get_future().wait();
  GenerateOptions options = greedy(std::nullopt);
  ASSERT_TRUE(
      loop.submit(request_of(prompt_of(20, 40), options), std::make_unique<Heard>(endless)).ok());
  loop.close();
  Heard::State late;
  EXPECT_EQ(loop.submit(request_of(prompt_of(20, 40), greedy(3)), std::make_unique<Heard>(late))
                .error()
                .code,
            ErrorCode::kBusy);
  loop.stop(std::chrono::milliseconds(0));
  EXPECT_TRUE(endless.done.get_future().get().ok());
  EXPECT_EQ(loop.stats().running, 0);
  EXPECT_EQ(loop.stats().pages.held_by_sequences, 0);
  loop.stop(std::chrono::milliseconds(0));
}

}  // namespace
}  // namespace quire::engine
