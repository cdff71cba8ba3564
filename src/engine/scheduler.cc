#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire::engine {

/// A request with what has become of it so far.
struct Scheduler::Entry {
  RequestId id;
  Request request;
  std::unique_ptr<RequestListener> listener;
  std::vector<TokenId> tokens;       // the prompt and all chosen ones
  std::unique_ptr<Answer> answer;    // since it was first admitted
  std::optional<Sequence> sequence;  // while it runs
  std::string text;                  // shown since the last event

  int64_t prompt_tokens() const { return static_cast<int64_t>(request.prompt.size()); }
  bool has_spoken() const { return answer && !answer->tokens().empty(); }
  /// Tokens that have to run before the next one can be chosen.
  std::span<const TokenId> pending() const {
    return std::span(tokens).subspan(static_cast<size_t>(sequence->length()));
  }
};

Result<void> check_request(const Engine& engine, const Request& request) {
  QUIRE_TRY_VOID(check_request(engine, request.prompt, request.options));
  const int32_t vocab = engine.model().config().vocab;
  for (const TokenId token : request.prompt) {
    if (token.value >= 0 && token.value < vocab) continue;
    return Error{ErrorCode::kUsage,
                 fmt::format("token {} is outside the vocabulary of {}", token.value, vocab)};
  }
  return {};
}

Scheduler::Scheduler(Engine& engine, SchedulerOptions options)
    : engine_(engine), options_(std::move(options)) {}

Scheduler::~Scheduler() = default;

void Scheduler::submit(RequestId id, Request request, std::unique_ptr<RequestListener> listener) {
  auto entry = std::make_unique<Entry>();
  entry->id = id;
  entry->tokens = request.prompt;
  entry->request = std::move(request);
  entry->listener = std::move(listener);
  waiting_.push_back(std::move(entry));
}

void Scheduler::cancel(RequestId id) {
  if (auto entry = remove(id)) cancel(std::move(entry));
}

void Scheduler::cancel_all() {
  for (Entries* entries : {&running_, &waiting_}) {
    for (auto& entry : std::exchange(*entries, {})) cancel(std::move(entry));
  }
}

void Scheduler::cancel(std::unique_ptr<Entry> entry) {
  Generated answer{.prompt_tokens = entry->prompt_tokens()};
  answer.finish = FinishReason::kInterrupted;
  if (entry->answer) {
    entry->answer->interrupt();
    answer = entry->answer->take();
  }
  end(std::move(entry), std::move(answer));
}

/// Takes the entry out of the list it is in.
std::unique_ptr<Scheduler::Entry> Scheduler::remove(RequestId id) {
  for (Entries* entries : {&running_, &waiting_}) {
    const auto found =
        std::ranges::find_if(*entries, [&](const auto& entry) { return entry->id == id; });
    if (found == entries->end()) continue;
    std::unique_ptr<Entry> entry = std::move(*found);
    entries->erase(found);
    return entry;
  }
  return nullptr;
}

void Scheduler::step() {
  admit();
  if (running_.empty()) return;
  std::vector<StepItem> items = form_batch();
  if (forward(items).ok()) sample(items);
}

void Scheduler::admit() {
  const auto most =
      static_cast<size_t>(std::clamp(options_.max_sequences, 1, engine_.max_step_tokens()));
  while (!waiting_.empty() && running_.size() < most) {
    std::unique_ptr<Entry> entry = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    match_prefix(*entry);
    running_.push_back(std::move(entry));
  }
}

void Scheduler::match_prefix(Entry& entry) {
  const Request& request = entry.request;
  entry.sequence = engine_.create_sequence(
      {.tenant = request.tenant, .salt = request.salt, .reuse = request.reuse});
  const Reuse reuse = engine_.resume(*entry.sequence, entry.tokens);
  if (!entry.answer) {
    counters_.prefix_queries += entry.prompt_tokens();
    counters_.prefix_hits += reuse.cached_tokens;
    const auto show = [&text = entry.text](std::string_view more) {
      text += more;
      return true;
    };
    entry.answer =
        std::make_unique<Answer>(engine_, request.options, show, request.constraint.get());
    entry.answer->set_prompt(entry.prompt_tokens(), reuse);
  }
  if (!entry.has_spoken()) entry.listener->on_start(reuse);
}

/// The next token of each that decodes; what is left of the step goes to prompts in their order.
std::vector<StepItem> Scheduler::form_batch() {
  auto rows = static_cast<size_t>(engine_.max_step_tokens()) - running_.size();
  std::vector<StepItem> items;
  for (const auto& entry : running_) {
    const auto pending = entry->pending();
    const size_t take = std::min(pending.size(), rows + 1);
    rows -= take - 1;
    items.push_back(
        {.sequence = &*entry->sequence,
         .tokens = pending.first(take),
         .logits = take == pending.size() ? StepItem::Logits::kLast : StepItem::Logits::kNone});
  }
  return items;
}

Result<void> Scheduler::forward(std::vector<StepItem>& items) {
  const auto vocab = static_cast<size_t>(engine_.model().config().vocab);
  logits_.resize(items.size() * vocab);
  for (;;) {
    const Result<void> done = engine_.step(items, logits_);
    if (done.ok()) return {};
    if (done.error().code == ErrorCode::kDoesNotFit && running_.size() > 1) {
      preempt_youngest();
      items.pop_back();
      continue;
    }
    for (auto& entry : std::exchange(running_, {})) end(std::move(entry), done.error());
    return done;
  }
}

void Scheduler::preempt_youngest() {
  std::unique_ptr<Entry> entry = std::move(running_.back());
  running_.pop_back();
  engine_.publish(*entry->sequence, PublishPoint::kEnds);
  entry->sequence.reset();
  ++counters_.preemptions;
  waiting_.insert(waiting_.begin(), std::move(entry));
}

void Scheduler::sample(const std::vector<StepItem>& items) {
  const auto vocab = static_cast<size_t>(engine_.model().config().vocab);
  std::span<const float> logits(logits_);
  Entries still_running;
  Entries all = std::exchange(running_, {});
  for (size_t i = 0; i < items.size(); ++i) {
    std::unique_ptr<Entry> entry = std::move(all[i]);
    if (!entry->has_spoken()) {
      entry->listener->on_prefill(entry->sequence->length(), entry->prompt_tokens());
    }
    if (items[i].logits == StepItem::Logits::kNone) {
      still_running.push_back(std::move(entry));
      continue;
    }
    if (!entry->has_spoken()) {
      counters_.prompt_tokens += entry->prompt_tokens();
      entry->answer->set_prefilled();
      engine_.publish(*entry->sequence, PublishPoint::kGoesOn);
    }
    const bool goes_on = entry->answer->choose(logits.first(vocab), *entry->sequence);
    logits = logits.subspan(vocab);
    ++counters_.generated_tokens;
    const TokenId token = entry->answer->tokens().back();
    entry->tokens.push_back(token);
    if (goes_on) {
      entry->listener->on_token({token, entry->text, entry->answer->logprobs()});
      entry->text.clear();
      still_running.push_back(std::move(entry));
      continue;
    }
    Generated answer = entry->answer->take();
    entry->listener->on_token(
        {token, entry->text, answer.logprobs.empty() ? nullptr : &answer.logprobs.back()});
    end(std::move(entry), std::move(answer));
  }
  running_ = std::move(still_running);
}

void Scheduler::end(std::unique_ptr<Entry> entry, Result<Generated> answer) {
  if (entry->sequence) engine_.publish(*entry->sequence, PublishPoint::kEnds);
  entry->sequence.reset();
  if (!answer.ok()) {
    ++counters_.ended_error;
  } else if (answer->finish == FinishReason::kStop) {
    ++counters_.ended_stop;
  } else if (answer->finish == FinishReason::kLength) {
    ++counters_.ended_length;
  } else {
    ++counters_.ended_cancelled;
  }
  ended_.push_back(
      {entry->id, std::move(entry->request.tenant), std::move(entry->listener), std::move(answer)});
}

std::vector<EndedRequest> Scheduler::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace quire::engine
