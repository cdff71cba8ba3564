// scheduler.h: which requests run in the next step of an engine, and what becomes of them.
//
// Continuous batching: requests join and leave at every step, prompts are read in chunks beside
// the others' next tokens, and what two of them have in common is read once. By law 1 none of it
// changes an answer: each is what generate() would give alone. Decisions are pure functions
// (engine/schedule_plan.h); this applies them. docs/scheduling.md describes the policy. Thread
// rule: one thread at a time, that of the engine.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/answer.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace quire::engine {

struct SchedulerOptions {
  int32_t max_sequences = 16;  // that run together, at least 1
};

/// Since the scheduler's creation.
struct SchedulerCounters {
  int64_t prefix_queries = 0;  // tokens of prompts that were looked for in the cache
  int64_t prefix_hits = 0;     // of them found; what a preempted request finds again does not count
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;
  int64_t ended_stop = 0;
  int64_t ended_length = 0;
  int64_t ended_cancelled = 0;
  int64_t ended_error = 0;
};

/// A request that has ended, whose listener does not know yet.
struct EndedRequest {
  RequestId id;
  std::string tenant;
  std::unique_ptr<RequestListener> listener;
  Result<Generated> answer;
};

/// Whether a request can ever run: kUsage or kDoesNotFit says why not. Any thread.
Result<void> check_request(const Engine& engine, const Request& request);

class Scheduler {
 public:
  /// `engine` must outlive it.
  Scheduler(Engine& engine, SchedulerOptions options);
  ~Scheduler();

  /// Requires check_request() to have passed, and ids that ascend.
  void submit(RequestId id, Request request, std::unique_ptr<RequestListener> listener);
  /// An unknown or ended id is fine.
  void cancel(RequestId id);
  void cancel_all();

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  const SchedulerCounters& counters() const { return counters_; }

  /// One forward pass for all that run. Nothing happens without work.
  void step();
  /// Those that ended since the last call; the caller tells their listeners.
  std::vector<EndedRequest> take_ended();

 private:
  struct Entry;
  using Entries = std::vector<std::unique_ptr<Entry>>;  // in the order of their ids

  void admit();
  void match_prefix(Entry& entry);
  std::vector<StepItem> form_batch();
  Result<void> forward(std::vector<StepItem>& items);
  void sample(const std::vector<StepItem>& items);
  void preempt_youngest();
  void end(std::unique_ptr<Entry> entry, Result<Generated> answer);
  std::unique_ptr<Entry> remove(RequestId id);
  void cancel(std::unique_ptr<Entry> entry);

  Engine& engine_;
  const SchedulerOptions options_;
  Entries waiting_;
  Entries running_;
  std::vector<EndedRequest> ended_;
  std::vector<float> logits_;  // [rows wanted, vocab]
  SchedulerCounters counters_;
};

}  // namespace quire::engine
