// answer_task.h: one client's request while it is answered: all its prompts and choices.
//
// Submits them to the engine loop, tells a sink what comes back, and cancels what is left when the
// client goes away. Once started it keeps itself alive until all have ended. Everything runs on the
// I/O thread; the loop's listeners only post to it.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/prompt.h"
#include "engine/request.h"
#include "engine/stop_matcher.h"
#include "server/answer_sink.h"
#include "server/generation_params.h"
#include "server/http.h"
#include "server/serving.h"

namespace quire::server {

/// What is asked of the engine.
struct AnswerPlan {
  std::string id;     // of the reply
  std::string route;  // for the log
  std::string tenant;
  std::vector<engine::Prompt> prompts;  // not empty
  GenerationParams params;
  std::unique_ptr<engine::TokenConstraint> constraint;
  /// How reasoning and calls are told apart; absent: everything is content.
  std::optional<context::AnswerFormat> format;
  bool one_call = false;  // ends after the first call of a tool
};

class AnswerTask : public std::enable_shared_from_this<AnswerTask> {
 public:
  /// Requires a backend.
  AnswerTask(Serving& serving, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
             std::unique_ptr<AnswerSink> sink);

  /// From any thread, once.
  void start();

  const AnswerPlan& plan() const { return plan_; }

 private:
  class Listener;
  using Clock = std::chrono::steady_clock;
  struct Times {
    Clock::time_point start, first, last;
  };
  struct Choice {
    engine::RequestId request;
    std::optional<context::AnswerDecoder> decoder;
    // Stop strings that the decoder's text must not show.
    std::vector<engine::StopMatcher> stops;  // of content and of reasoning; empty without stops
    size_t shown_bytes = 0;                  // of the text, without a decoder
    int64_t cached_tokens = 0;
    int64_t tokens = 0;
    bool has_calls = false;
    bool reasons = false;  // what it said last was reasoning
    bool cut = false;      // cancelled because it has its one call
    bool done = false;
    Times times;
  };
  struct Token {
    AnswerToken token;
    std::string text;
    Clock::time_point at;
  };

  int32_t prompt_of(int32_t index) const { return index / plan_.params.choices; }
  void submit_all();
  engine::Request make_request(int32_t index);
  void on_start(int32_t index, engine::Reuse reuse, Clock::time_point at);
  void on_prefill(int32_t index, int64_t done, int64_t total);
  void on_token(int32_t index, Token token);
  void on_done(int32_t index, Result<engine::Generated> answer, Clock::time_point at);
  void add_events(Choice& choice, AnswerPiece& piece, context::AnswerEvents events);
  void note_token(Choice& choice, Clock::time_point at);
  void end_choice(int32_t index, engine::Generated generated, Clock::time_point at);
  void fail(const ApiError& error);
  void client_left();
  void cancel_all();
  void count(const Choice& choice, std::string_view reason, Clock::time_point at);
  void log_end(std::string_view result);

  Serving& serving_;
  const Backend& backend_;
  const std::shared_ptr<HttpExchange> exchange_;
  AnswerPlan plan_;
  const std::unique_ptr<AnswerSink> sink_;
  const Clock::time_point arrived_ = Clock::now();
  std::vector<Choice> choices_;
  Usage usage_;
  int64_t left_ = 0;   // choices that have not ended
  bool over_ = false;  // nothing more is told to the sink
};

}  // namespace quire::server
