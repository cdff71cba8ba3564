#include "engine/batch_generate.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "engine/answer.h"

namespace quire::engine {
namespace {

int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

/// Where other prompts leave each: how much it shares with all of them and with the next one.
std::vector<std::vector<int64_t>> shared_beginnings(std::span<const BatchRequest> requests) {
  std::vector<std::vector<int64_t>> points(requests.size());
  if (requests.size() < 2) return points;
  auto of_all = static_cast<int64_t>(requests[0].prompt.size());
  for (const BatchRequest& request : requests) {
    of_all = std::min(of_all, common_tokens(requests[0].prompt, request.prompt));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::span<const TokenId> prompt = requests[i].prompt;
    std::vector<int64_t> found = requests[i].options.resume_points;
    found.push_back(of_all);
    if (i + 1 < requests.size()) found.push_back(common_tokens(prompt, requests[i + 1].prompt));
    std::ranges::sort(found);
    for (const int64_t point : found) {
      const bool is_new = points[i].empty() || points[i].back() != point;
      // The last token always runs, so what ends there is no point to go on from.
      if (is_new && point > 0 && point < static_cast<int64_t>(prompt.size())) {
        points[i].push_back(point);
      }
    }
  }
  return points;
}

/// One request that has begun.
struct Running {
  size_t index = 0;
  std::unique_ptr<GenerateOptions> options;  // where the answer refers to
  std::unique_ptr<Answer> answer;
  std::vector<TokenId> tokens;  // the prompt and all chosen ones
  std::optional<Sequence> sequence;
};

class Batch {
 public:
  Batch(Engine& engine, std::span<const BatchRequest> requests, const BatchOptions& options,
        const BatchEvents& events)
      : engine_(engine), requests_(requests), options_(options), events_(events) {}

  void run() {
    const auto resume_points = shared_beginnings(requests_);
    for (size_t i = 0; i < requests_.size(); ++i) {
      auto options = std::make_unique<GenerateOptions>(requests_[i].options);
      options->resume_points = resume_points[i];
      waiting_.push_back({i, std::move(options), nullptr, requests_[i].prompt, std::nullopt});
    }
    while (!waiting_.empty() || !running_.empty()) {
      if (!go_on()) return stop();
      if (!admit_while_there_is_room()) return stop();
      if (!running_.empty()) step();
    }
  }

 private:
  /// A step has room for one token of each.
  size_t most_together() const {
    return static_cast<size_t>(std::clamp(options_.max_sequences, 1, engine_.max_step_tokens()));
  }

  bool go_on() const { return !events_.on_progress || events_.on_progress(done_); }

  void done(Running& one, Result<Generated> answer) {
    ++done_;
    if (one.sequence) engine_.publish(*one.sequence, PublishPoint::kEnds);
    one.sequence.reset();
    events_.on_done(one.index, std::move(answer));
  }

  /// What has begun ends with what it has.
  void stop() {
    for (auto* list : {&running_, &waiting_}) {
      for (Running& one : *list) {
        if (one.answer == nullptr) continue;
        one.answer->interrupt();
        done(one, one.answer->take());
      }
    }
  }

  /// False if it was stopped while reading a prompt.
  bool admit_while_there_is_room() {
    while (!waiting_.empty() && running_.size() < most_together()) {
      Running one = std::move(waiting_.front());
      waiting_.pop_front();
      const Result<bool> goes_on = begin(one);
      if (goes_on.ok() && *goes_on) {
        running_.push_back(std::move(one));
        continue;
      }
      if (goes_on.ok()) {
        done(one, one.answer->take());
        continue;
      }
      const bool stopped = goes_on.error().code == ErrorCode::kInterrupted;
      if (stopped || (goes_on.error().code == ErrorCode::kDoesNotFit && !running_.empty())) {
        put_back(std::move(one));
        return !stopped;
      }
      done(one, goes_on.error());
    }
    return true;
  }

  /// What it has computed stays in the prefix tree as long as there is room.
  void put_back(Running one) {
    if (one.sequence) engine_.publish(*one.sequence, PublishPoint::kEnds);
    one.sequence.reset();
    waiting_.push_front(std::move(one));
  }

  /// Reads what is new of its tokens and chooses the next; whether the answer goes on.
  Result<bool> begin(Running& one) {
    const bool is_first = one.answer == nullptr;
    if (is_first) {
      QUIRE_TRY_VOID(check_request(engine_, one.tokens, *one.options));
      one.answer = std::make_unique<Answer>(engine_, *one.options, nullptr);
    }
    one.sequence = engine_.create_sequence();
    const Reuse reuse = engine_.resume(*one.sequence, one.tokens);
    if (one.answer->tokens().empty()) {
      one.answer->set_prompt(static_cast<int64_t>(one.tokens.size()), reuse);
    }
    const auto progress = [this](int64_t, int64_t) { return go_on(); };
    QUIRE_TRY(const auto logits, read_prompt(engine_, *one.sequence, one.tokens,
                                             one.options->resume_points, progress));
    if (one.answer->tokens().empty()) one.answer->set_prefilled();
    return choose(one, logits);
  }

  bool choose(Running& one, std::span<const float> logits) {
    const bool goes_on = one.answer->choose(logits, *one.sequence);
    one.tokens.push_back(one.answer->tokens().back());
    return goes_on;
  }

  /// One more token for each that runs.
  void step() {
    const auto vocab = static_cast<size_t>(engine_.model().config().vocab);
    logits_.resize(running_.size() * vocab);
    std::vector<StepItem> items;
    for (Running& one : running_) {
      items.push_back({.sequence = &*one.sequence, .tokens = std::span(one.tokens).last(1)});
    }
    if (auto stepped = engine_.step(items, logits_); !stepped.ok()) {
      Running last = std::move(running_.back());
      running_.pop_back();
      const bool others_run = !running_.empty();
      if (others_run && stepped.error().code == ErrorCode::kDoesNotFit) {
        put_back(std::move(last));
      } else {
        done(last, stepped.error());
      }
      return;
    }
    std::deque<Running> still_running;
    for (size_t i = 0; i < running_.size(); ++i) {
      Running& one = running_[i];
      if (choose(one, std::span<const float>(logits_).subspan(i * vocab, vocab))) {
        still_running.push_back(std::move(one));
      } else {
        done(one, one.answer->take());
      }
    }
    running_ = std::move(still_running);
  }

  Engine& engine_;
  const std::span<const BatchRequest> requests_;
  const BatchOptions& options_;
  const BatchEvents& events_;
  std::deque<Running> waiting_;
  std::deque<Running> running_;  // in the order in which they joined
  std::vector<float> logits_;
  int64_t done_ = 0;
};

}  // namespace

void generate_batch(Engine& engine, std::span<const BatchRequest> requests,
                    const BatchOptions& options, const BatchEvents& events) {
  Batch(engine, requests, options, events).run();
}

}  // namespace quire::engine
