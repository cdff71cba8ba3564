#include "server/answer_task.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::server {
namespace {

using context::AnswerEvent;

double seconds(std::chrono::steady_clock::time_point from,
               std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The end of the text that the answer continues.
std::string_view tail_of(const engine::Prompt& prompt) {
  constexpr size_t kTailBytes = 256;
  const std::string_view text = prompt.text;
  return text.substr(text.size() - std::min(text.size(), kTailBytes));
}

}  // namespace

/// Hands over to the I/O thread what the engine's says.
class AnswerTask::Listener : public engine::RequestListener {
 public:
  Listener(std::shared_ptr<AnswerTask> task, int32_t index)
      : task_(std::move(task)), index_(index) {}

  void on_start(const engine::Reuse& reuse) override {
    post([reuse, at = Clock::now()](AnswerTask& t, int32_t i) { t.on_start(i, reuse, at); });
  }
  void on_prefill(int64_t done, int64_t total) override {
    if (!task_->plan_.params.return_progress) return;
    post([done, total](AnswerTask& t, int32_t i) { t.on_prefill(i, done, total); });
  }
  void on_token(const engine::TokenEvent& event) override {
    Token token{{event.token, std::nullopt}, std::string(event.text), Clock::now()};
    if (event.logprobs != nullptr) token.token.logprob = *event.logprobs;
    post([token = std::move(token)](AnswerTask& t, int32_t i) mutable {
      t.on_token(i, std::move(token));
    });
  }
  void on_done(Result<engine::Generated> answer) override {
    post([answer = std::move(answer), at = Clock::now()](AnswerTask& t, int32_t i) mutable {
      t.on_done(i, std::move(answer), at);
    });
  }

 private:
  template <class Tell>
  void post(Tell tell) {
    task_->exchange_->post(
        [task = task_, index = index_, t = std::move(tell)]() mutable { t(*task, index); });
  }

  const std::shared_ptr<AnswerTask> task_;
  const int32_t index_;
};

AnswerTask::AnswerTask(Serving& serving, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
                       std::unique_ptr<AnswerSink> sink)
    : serving_(serving),
      backend_(*serving.backend()),
      exchange_(std::move(exchange)),
      plan_(std::move(plan)),
      sink_(std::move(sink)) {}

void AnswerTask::start() {
  exchange_->post([task = shared_from_this()] {
    task->exchange_->on_close([weak = std::weak_ptr(task)] {
      if (const auto alive = weak.lock()) alive->client_left();
    });
    task->submit_all();
  });
}

engine::Request AnswerTask::make_request(int32_t index) {
  engine::Request request;
  request.tenant = plan_.tenant;
  request.salt = plan_.params.salt;
  request.prompt = plan_.prompts[static_cast<size_t>(prompt_of(index))].tokens;
  request.options = plan_.params.options;
  request.options.sampling.choice = index % plan_.params.choices;
  request.options.draft.most = serving_.options().most_drafts;
  if (plan_.constraint) request.constraint = plan_.constraint->fresh();
  request.reuse = plan_.params.reuse;
  return request;
}

void AnswerTask::submit_all() {
  if (serving_.stopping()) return fail(unavailable("The server is stopping."));
  const auto count = static_cast<int32_t>(plan_.prompts.size()) * plan_.params.choices;
  left_ = count;
  const std::vector<std::string>& stop = plan_.params.options.stop;
  for (int32_t i = 0; i < count; ++i) {
    Choice choice;
    if (plan_.format) {
      choice.decoder.emplace(backend_.model.tokenizer(), *plan_.format,
                             tail_of(plan_.prompts[static_cast<size_t>(prompt_of(i))]));
      if (!stop.empty()) choice.stops.assign(2, engine::StopMatcher(stop));
    }
    choices_.push_back(std::move(choice));
  }
  for (int32_t i = 0; i < count; ++i) {
    Result<engine::RequestId> id =
        backend_.loop.submit(make_request(i), std::make_unique<Listener>(shared_from_this(), i));
    if (!id.ok()) return fail(from_error(id.error()));
    choices_[static_cast<size_t>(i)].request = *id;
  }
  for (const engine::Prompt& prompt : plan_.prompts) {
    usage_.prompt_tokens += static_cast<int64_t>(prompt.tokens.size());
  }
  sink_->begin();
}

void AnswerTask::on_start(int32_t index, engine::Reuse reuse, Clock::time_point at) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const bool again = choice.times.start != Clock::time_point();  // after a preemption
  if (again) return;
  choice.times.start = at;
  choice.cached_tokens = reuse.cached_tokens;
  // Each prompt counts once, whatever the number of choices.
  if (index % plan_.params.choices != 0) return;
  const engine::Prompt& prompt = plan_.prompts[static_cast<size_t>(prompt_of(index))];
  serving_.metrics().count_prompt(static_cast<int64_t>(prompt.tokens.size()), reuse.cached_tokens);
}

void AnswerTask::on_prefill(int32_t index, int64_t done, int64_t total) {
  if (over_) return;
  sink_->progress({.index = index,
                   .total = total,
                   .cached = choices_[static_cast<size_t>(index)].cached_tokens,
                   .processed = done,
                   .time_ms = seconds(arrived_, Clock::now()) * 1000.0});
}

void AnswerTask::note_token(Choice& choice, Clock::time_point at) {
  serving_.metrics().count_tokens(1);
  if (choice.tokens++ == 0) {
    choice.times.first = at;
    serving_.metrics().observe_first_token(seconds(arrived_, at));
  } else {
    serving_.metrics().observe_gap(seconds(choice.times.last, at));
  }
  choice.times.last = at;
}

void AnswerTask::on_token(int32_t index, Token token) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  note_token(choice, token.at);
  if (over_ || choice.cut) return;
  AnswerPiece piece{.index = index, .events = {}, .tokens = {std::move(token.token)}};
  if (choice.decoder) {
    add_events(choice, piece, choice.decoder->push(piece.tokens.front().id));
    if (choice.reasons) ++usage_.reasoning_tokens;
  } else if (!token.text.empty()) {
    choice.shown_bytes += token.text.size();
    piece.events.push_back({AnswerEvent::Kind::kContent, std::move(token.text), {}});
  }
  sink_->piece(std::move(piece));
  if (plan_.one_call && choice.has_calls && !choice.cut) {
    choice.cut = true;
    backend_.loop.cancel(choice.request);
  }
}

/// What the decoder found, without what may be part of a stop string.
void AnswerTask::add_events(Choice& choice, AnswerPiece& piece, context::AnswerEvents events) {
  for (AnswerEvent& event : events) {
    choice.reasons = event.kind == AnswerEvent::Kind::kReasoning;
    if (event.kind == AnswerEvent::Kind::kToolCall) {
      if (plan_.one_call && choice.has_calls) continue;
      choice.has_calls = true;
    } else if (!choice.stops.empty()) {
      engine::StopMatcher& stops =
          choice.stops[event.kind == AnswerEvent::Kind::kReasoning ? 1 : 0];
      event.text = stops.matched() ? "" : stops.push(event.text);
      if (event.text.empty()) continue;
    }
    piece.events.push_back(std::move(event));
  }
}

void AnswerTask::on_done(int32_t index, Result<engine::Generated> answer, Clock::time_point at) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.done = true;
  --left_;
  if (over_) return;
  if (!answer.ok()) return fail(from_error(answer.error()));
  if (answer->finish == engine::FinishReason::kInterrupted && !choice.cut) {
    return fail(unavailable("The server is stopping; the answer was cut short."));
  }
  end_choice(index, *std::move(answer), at);
  if (left_ > 0) return;
  over_ = true;
  sink_->finish(usage_);
  log_end("ok");
}

void AnswerTask::end_choice(int32_t index, engine::Generated generated, Clock::time_point at) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  AnswerPiece rest{.index = index, .events = {}, .tokens = {}};
  if (choice.decoder && !choice.cut) {
    add_events(choice, rest, choice.decoder->finish());
    for (size_t i = 0; i < choice.stops.size(); ++i) {
      if (choice.stops[i].matched()) continue;
      const std::string held = choice.stops[i].finish();
      const bool ended_by_stop = generated.finish == engine::FinishReason::kStop &&
                                 std::ranges::count(plan_.params.options.stop, generated.stop) > 0;
      if (held.empty() || ended_by_stop) continue;
      rest.events.push_back(
          {i == 1 ? AnswerEvent::Kind::kReasoning : AnswerEvent::Kind::kContent, held, {}});
    }
  } else if (!choice.decoder && generated.text.size() > choice.shown_bytes) {
    rest.events.push_back(
        {AnswerEvent::Kind::kContent, generated.text.substr(choice.shown_bytes), {}});
  }
  if (!rest.events.empty()) sink_->piece(std::move(rest));

  if (index % plan_.params.choices == 0) usage_.cached_tokens += generated.reuse.cached_tokens;
  usage_.completion_tokens += static_cast<int64_t>(generated.tokens.size());
  const bool calls = choice.has_calls && generated.finish != engine::FinishReason::kLength;
  const std::string_view reason = calls ? "tool_calls" : engine::name(generated.finish);
  count(choice, reason, at);
  sink_->ended({.index = index,
                .prompt = plan_.prompts[static_cast<size_t>(prompt_of(index))],
                .finish_reason = reason,
                .generated = std::move(generated)});
}

void AnswerTask::fail(const ApiError& error) {
  if (over_) return;
  over_ = true;
  cancel_all();
  for (const Choice& choice : choices_) {
    if (!choice.done) count(choice, "error", Clock::now());
  }
  sink_->fail(error);
  log_end(error.code.empty() ? "error" : error.code);
}

void AnswerTask::client_left() {
  if (over_) return;
  over_ = true;
  cancel_all();
  for (const Choice& choice : choices_) {
    if (!choice.done) count(choice, "abort", Clock::now());
  }
  log_end("client_left");
}

void AnswerTask::cancel_all() {
  for (const Choice& choice : choices_) {
    if (!choice.done && choice.request.value >= 0) backend_.loop.cancel(choice.request);
  }
}

void AnswerTask::count(const Choice& choice, std::string_view reason, Clock::time_point at) {
  AnswerTimes times{.e2e_s = seconds(arrived_, at)};
  const bool started = choice.times.start != Clock::time_point();
  times.queue_s = seconds(arrived_, started ? choice.times.start : at);
  if (choice.tokens > 0 && started) {
    times.ttft_s = seconds(arrived_, choice.times.first);
    times.prefill_s = seconds(choice.times.start, choice.times.first);
    times.decode_s = seconds(choice.times.first, choice.times.last);
  }
  serving_.metrics().count_answer(reason, times);
}

void AnswerTask::log_end(std::string_view result) {
  serving_.log().write(LogLevel::kInfo, "answer",
                       {{"id", plan_.id},
                        {"route", plan_.route},
                        {"result", std::string(result)},
                        {"prompt_tokens", std::to_string(usage_.prompt_tokens)},
                        {"cached_tokens", std::to_string(usage_.cached_tokens)},
                        {"completion_tokens", std::to_string(usage_.completion_tokens)},
                        {"ms", fmt::format("{:.1f}", seconds(arrived_, Clock::now()) * 1000.0)}});
}

}  // namespace quire::server
