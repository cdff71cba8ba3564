// scheduler.h: which requests run in the next step of an engine, and what becomes of them.
//
// Continuous batching: requests join and leave at every step, prompts are read a few layers at a
// time beside the others' next tokens, and what two of them have in common is read once. By law 1
// none of it changes an answer: each is what generate() would give alone. Decisions are pure
// functions (engine/schedule_plan.h); this applies them. docs/scheduling.md describes the policy.
// Thread rule: one thread at a time, that of the engine.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/draft_policy.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/schedule_plan.h"

namespace quire::engine {

struct SchedulerOptions {
  int32_t max_sequences = 16;  // that run together, at least 1
  /// How many times as long a step may take for the sake of prompts that are read beside answers.
  /// Infinite: prompts and answers run in one pass. Changes no bit.
  double prefill_slowdown = 1.75;
  std::function<double()> now_ms;  // empty: the steady clock
};

/// Since the scheduler's creation.
struct SchedulerCounters {
  int64_t prefix_queries = 0;  // tokens of prompts that were looked for in the cache
  int64_t prefix_hits = 0;     // of them found; what a preempted request finds again does not count
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t drafted_tokens = 0;   // guesses that were verified
  int64_t accepted_tokens = 0;  // of them those that were right
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
  /// Listeners of what is left hear no more.
  ~Scheduler();

  /// Requires check_request() to have passed, and ids that ascend.
  void submit(RequestId id, Request request, std::unique_ptr<RequestListener> listener);
  /// Ends a request with what it has; all its pages return but those that the prefix tree keeps.
  /// An unknown or ended id is fine.
  void cancel(RequestId id);
  void cancel_all();

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  /// How many can run together, whatever was asked for.
  int32_t max_running() const { return max_running_; }
  const SchedulerCounters& counters() const { return counters_; }

  /// One forward pass for those that decode, and layers of one for prompts. Nothing happens without
  /// work.
  void step();
  /// Those that ended since the last call; the caller tells their listeners.
  std::vector<EndedRequest> take_ended();

 private:
  struct Entry;                                         // engine/scheduler_entry.h
  using Entries = std::vector<std::unique_ptr<Entry>>;  // in the order of their ids
  struct Batch {
    std::vector<Entry*> entries;
    std::vector<StepItem> items;  // of each entry
    int32_t guesses = 0;
    bool has_readers = false;
    void add(Entry& entry, int64_t tokens);
    /// The token chosen last, and guesses of those that follow.
    void add_guessing(Entry& entry, std::span<const TokenId> guesses);
    Batch without_guesses() const;
    int64_t num_rows() const;
  };

  // Joining: engine/scheduler_admission.cc
  bool has_foreground() const;
  void make_way_for_foreground();
  std::unique_ptr<Entry> admit();
  bool match_prefix(Entry& entry);
  bool reserve(const Entry& entry);
  void start(std::unique_ptr<Entry> entry);
  void put_back(std::unique_ptr<Entry> entry);
  bool make_way_for(const Contender& candidate);
  bool still_follows(const Entry& entry) const;
  int64_t shared_tokens(const Entry& a, const Entry& b) const;
  int64_t promised_bytes(const Entry& entry) const;

  // Reading prompts beside answers: engine/scheduler_reading.cc
  struct Readers {
    std::vector<Entry*> entries;
    std::vector<Reader> limits;  // of each entry
  };
  struct Reading {
    PartialStep step;
    Batch batch;
  };
  Readers readers() const;
  void add_readers(Batch& batch, int64_t tokens) const;
  bool reads_beside_answers() const;
  bool begin_reading();
  void read_prompts(std::optional<double> budget_ms);
  void adapt_reading(double layer_ms, double budget_ms);
  void stop_reading(const Entry& entry);

  // Running: engine/scheduler.cc
  Batch form_batch(bool with_prompts);
  std::optional<double> forward(Batch& batch);
  bool with_room(Batch& batch, const std::function<Result<void>(const Batch&)>& run);
  /// `kept`: tokens of each item that stay. // [items], or empty where all do
  void sample(const Batch& batch, std::span<int64_t> kept);
  void publish(const Batch& batch);
  bool choose(Entry& entry, std::span<const float> logits);
  // Guessing: engine/scheduler_drafts.cc
  std::vector<std::span<const TokenId>> guess(std::span<Entry* const> decoding, bool has_readers);
  std::span<const TokenId> find_guesses(Entry& entry) const;
  int64_t choose_while_right(Entry& entry, std::span<const float> logits);
  static void look_at_guess(Entry& entry);
  double learn(const Batch& batch, double start_ms);

  void preempt(size_t index);
  void give_way(size_t index);
  void preempt_for_memory(Batch& batch);
  void end(std::unique_ptr<Entry> entry, Result<Generated> answer);
  void cancel(std::unique_ptr<Entry> entry);
  std::unique_ptr<Entry> take_out(RequestId id);

  Engine& engine_;
  const SchedulerOptions options_;
  const int32_t max_running_;
  StepTimes draft_times_;        // of steps without prompts,
  std::vector<RequestId> team_;  // since these decode together
  Entries waiting_;
  Entries running_;
  bool no_room_ = false;  // in this step, for whose turn it is
  bool ran_out_ = false;  // of memory, since a request last ended
  std::vector<EndedRequest> ended_;
  std::vector<float> logits_;  // [rows wanted, vocab]
  std::optional<Reading> reading_;
  int64_t reading_rows_ = 32;  // of the next such pass
  SchedulerCounters counters_;
};

}  // namespace quire::engine
