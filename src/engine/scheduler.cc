#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "engine/scheduler_entry.h"

namespace quire::engine {
namespace {

// What a request that comes may have to wait for when others are read in the background.
constexpr int64_t kBackgroundChunk = 64;

double steady_now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

SchedulerOptions with_clock(SchedulerOptions options) {
  if (!options.now_ms) options.now_ms = steady_now_ms;
  return options;
}

int32_t most_running(const Engine& engine, int32_t wanted) {
  return std::clamp(wanted, 1, std::min(engine.most_sequences(), engine.max_step_tokens()));
}

}  // namespace

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
    : engine_(engine),
      options_(with_clock(std::move(options))),
      max_running_(most_running(engine, options_.max_sequences)) {}

Scheduler::~Scheduler() = default;

void Scheduler::submit(RequestId id, Request request, std::unique_ptr<RequestListener> listener) {
  auto entry = std::make_unique<Entry>();
  entry->id = id;
  entry->tokens = request.prompt;
  // Without a cache there is nothing to go on from.
  if (!engine_.cache().recomputes()) entry->resume_points = request.options.resume_points;
  entry->request = std::move(request);
  entry->listener = std::move(listener);
  waiting_.push_back(std::move(entry));
}

void Scheduler::step() {
  no_room_ = false;
  make_way_for_foreground();
  while (std::unique_ptr<Entry> next = admit()) {
    if (match_prefix(*next) && reserve(*next)) {
      start(std::move(next));
    } else {
      put_back(std::move(next));
    }
  }
  const bool is_answering =
      std::ranges::any_of(running_, [](const auto& entry) { return !entry->is_reading(); });
  // A pass over prompts that began beside answers ends alone once there are none.
  if (reading_ && !is_answering) return read_prompts(std::nullopt);
  const bool beside = is_answering && reads_beside_answers();
  Batch batch = form_batch(!beside);
  const std::optional<double> ms = forward(batch);
  if (!ms) return;
  publish(batch);
  if (beside) read_prompts((options_.prefill_slowdown - 1.0) * *ms);
}

void Scheduler::Batch::add(Entry& entry, int64_t tokens) {
  const bool is_last = tokens == entry.num_pending();
  has_readers |= entry.is_reading();
  entries.push_back(&entry);
  items.push_back({.sequence = &*entry.sequence,
                   .tokens = entry.pending().first(static_cast<size_t>(tokens)),
                   .logits = is_last ? StepItem::Logits::kLast : StepItem::Logits::kNone});
}

void Scheduler::Batch::add_guessing(Entry& entry, std::span<const TokenId> guessed) {
  entry.tentative.assign(1, entry.tokens.back());
  entry.tentative.insert(entry.tentative.end(), guessed.begin(), guessed.end());
  guesses += static_cast<int32_t>(guessed.size());
  entries.push_back(&entry);
  items.push_back(
      {.sequence = &*entry.sequence, .tokens = entry.tentative, .logits = StepItem::Logits::kAll});
}

Scheduler::Batch Scheduler::Batch::without_guesses() const {
  Batch plain;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool guesses_here = items[i].logits == StepItem::Logits::kAll;
    plain.add(*entries[i], guesses_here ? 1 : static_cast<int64_t>(items[i].tokens.size()));
  }
  return plain;
}

int64_t Scheduler::Batch::num_rows() const {
  int64_t rows = 0;
  for (const StepItem& item : items) rows += static_cast<int64_t>(item.tokens.size());
  return rows;
}

/// The next token of each that decodes, with guesses where they pay, and of prompts as much as a
/// pass takes.
Scheduler::Batch Scheduler::form_batch(bool with_prompts) {
  Batch batch;
  std::vector<Entry*> decoding;
  for (const auto& entry : running_) {
    if (!entry->is_reading()) decoding.push_back(entry.get());
  }
  const auto guesses = guess(decoding, decoding.size() < running_.size());
  for (size_t i = 0; i < decoding.size(); ++i) {
    if (guesses[i].empty()) {
      batch.add(*decoding[i], 1);
    } else {
      batch.add_guessing(*decoding[i], guesses[i]);
    }
  }
  if (!with_prompts) return batch;
  // Without a cache every step begins at the first token: the fewer steps, the better.
  int64_t rows = engine_.max_step_tokens() - batch.num_rows();
  if (!has_foreground()) rows = std::min(rows, kBackgroundChunk);
  add_readers(batch, engine_.cache().recomputes() ? INT64_MAX : rows);
  return batch;
}

/// Runs the batch, with fewer of the running where memory is short, and chooses the next tokens.
/// Returns how long the pass took; nothing if none ran.
std::optional<double> Scheduler::forward(Batch& batch) {
  const size_t most_rows = batch.items.size() + static_cast<size_t>(batch.guesses);
  logits_.resize(most_rows * static_cast<size_t>(engine_.model().config().vocab));
  const double start = options_.now_ms();
  std::optional<double> ms;
  if (batch.guesses > 0) {
    const auto keep = [&](std::span<const float>, std::span<int64_t> kept) {
      ms = learn(batch, start);
      sample(batch, kept);
    };
    if (engine_.step_guessing(batch.items, logits_, keep).ok()) return ms;
    // Guesses want room that the answers may do without. What else was wrong shows again.
    batch = batch.without_guesses();
  }
  with_room(batch, [&](const Batch& rest) -> Result<void> {
    QUIRE_TRY_VOID(engine_.step(rest.items, logits_));
    ms = learn(rest, start);
    sample(rest, {});
    return {};
  });
  return ms;
}

/// Calls run(batch), with fewer of the running where memory is short. False if nothing ran.
bool Scheduler::with_room(Batch& batch, const std::function<Result<void>(const Batch&)>& run) {
  while (!batch.items.empty()) {
    const Result<void> done = run(batch);
    if (done.ok()) return true;
    if (done.error().code == ErrorCode::kDoesNotFit && running_.size() > 1) {
      preempt_for_memory(batch);
      continue;
    }
    for (const Entry* entry : batch.entries) end(take_out(entry->id), done.error());
    return false;
  }
  return false;
}

void Scheduler::preempt_for_memory(Batch& batch) {
  std::vector<Contender> running;
  for (const auto& entry : running_) running.push_back(entry->contender());
  const size_t victim = whom_to_preempt(running);
  Batch rest;
  for (size_t i = 0; i < batch.entries.size(); ++i) {
    if (batch.entries[i] == running_[victim].get()) continue;
    rest.add(*batch.entries[i], static_cast<int64_t>(batch.items[i].tokens.size()));
  }
  batch = std::move(rest);
  preempt(victim);
  ran_out_ = true;
}

/// Chooses the next token of each whose tokens have all run, and more as long as guesses are right.
void Scheduler::sample(const Batch& batch, std::span<int64_t> kept) {
  const auto vocab = static_cast<size_t>(engine_.model().config().vocab);
  std::span<const float> logits(logits_);
  for (size_t i = 0; i < batch.items.size(); ++i) {
    Entry& entry = *batch.entries[i];
    if (!entry.has_spoken()) {
      entry.listener->on_prefill(entry.sequence->length(), entry.prompt_tokens());
    }
    if (batch.items[i].logits == StepItem::Logits::kNone) continue;
    const bool guessed = batch.items[i].logits == StepItem::Logits::kAll;
    const size_t rows = guessed ? batch.items[i].tokens.size() : 1;
    if (guessed) {
      kept[i] = choose_while_right(entry, logits.first(rows * vocab));
    } else if (choose(entry, logits.first(vocab))) {
      look_at_guess(entry);
    }
    logits = logits.subspan(rows * vocab);
  }
}

/// Chooses the next token; false if it was the last one.
bool Scheduler::choose(Entry& entry, std::span<const float> logits) {
  Answer& answer = *entry.answer;
  if (!entry.has_spoken()) {
    counters_.prompt_tokens += entry.prompt_tokens();
    answer.set_prefilled();
  }
  const bool goes_on = answer.choose(logits, entry.tokens);
  ++counters_.generated_tokens;
  const TokenId token = answer.tokens().back();
  entry.tokens.push_back(token);
  const GeneratedLogprob* logprobs = answer.logprobs();
  if (!goes_on) {
    entry.finished = answer.take();
    logprobs = entry.finished->logprobs.empty() ? nullptr : &entry.finished->logprobs.back();
  }
  entry.listener->on_token({token, entry.text, logprobs});
  entry.text.clear();
  return goes_on;
}

/// Shows others what they may go on from, and lets go of those that ended.
void Scheduler::publish(const Batch& batch) {
  for (Entry* entry : batch.entries) {
    if (entry->finished) {
      Generated answer = *std::exchange(entry->finished, std::nullopt);
      end(take_out(entry->id), std::move(answer));
      continue;
    }
    const int64_t length = entry->sequence->length();
    const bool is_point = std::ranges::binary_search(entry->resume_points, length);
    // What follows a prompt is the answer's own; what follows a resume point is another's too.
    if (is_point) engine_.publish(*entry->sequence, PublishPoint::kEnds);
    if (length == entry->prompt_tokens()) {
      engine_.publish(*entry->sequence, PublishPoint::kGoesOn);
    }
  }
}

void Scheduler::end(std::unique_ptr<Entry> entry, Result<Generated> answer) {
  if (entry->sequence) {
    engine_.publish(*entry->sequence, PublishPoint::kEnds);
    entry->sequence.reset();
    ran_out_ = false;
  }
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

void Scheduler::cancel(RequestId id) {
  if (auto entry = take_out(id)) cancel(std::move(entry));
}

void Scheduler::cancel_all() {
  reading_.reset();
  for (Entries* entries : {&running_, &waiting_}) {
    for (auto& entry : std::exchange(*entries, {})) cancel(std::move(entry));
  }
}

void Scheduler::cancel(std::unique_ptr<Entry> entry) {
  Generated answer;
  answer.prompt_tokens = entry->prompt_tokens();
  if (entry->answer) answer = entry->answer->take();
  answer.finish = FinishReason::kInterrupted;
  end(std::move(entry), std::move(answer));
}

/// Removes it from the list it is in; null if it is in none.
std::unique_ptr<Scheduler::Entry> Scheduler::take_out(RequestId id) {
  for (Entries* entries : {&running_, &waiting_}) {
    const auto found =
        std::ranges::find_if(*entries, [&](const auto& entry) { return entry->id == id; });
    if (found == entries->end()) continue;
    std::unique_ptr<Entry> entry = std::move(*found);
    entries->erase(found);
    stop_reading(*entry);
    return entry;
  }
  return nullptr;
}

std::vector<EndedRequest> Scheduler::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace quire::engine
