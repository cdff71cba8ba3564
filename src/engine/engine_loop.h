// engine_loop.h: a thread that runs an engine for many callers at once.
//
// Callers hand in requests and hear of them through their listeners; the loop batches whatever is
// there (engine/scheduler.h). Whenever nothing is left to do it checks that every page is accounted
// for (law 3). Thread rule: all members may be called from any thread, listeners are called on the
// loop's. While the loop lives, nobody else may use the engine but for what is constant in it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/scheduler.h"

namespace quire::engine {

struct EngineLoopOptions {
  SchedulerOptions scheduler;
  int32_t max_queue = 64;  // requests beyond those that could run
};

/// What the loop does and has done, as of its last step.
struct LoopStats {
  int64_t running = 0;
  int64_t waiting = 0;  // accepted, and not started or preempted
  SchedulerCounters counters;
  kv::PageCounts pages;
  kv::KvStats kv;
};

class EngineLoop {
 public:
  /// `engine` must outlive it.
  EngineLoop(Engine& engine, const EngineLoopOptions& options);
  /// Cancels what is left.
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  /// Puts a request in the queue. kUsage or kDoesNotFit, with the numbers, if it can never run;
  /// kBusy if the queue is full or closed, and then the listener is never called. A listener may be
  /// called before this returns.
  Result<RequestId> submit(Request request, std::unique_ptr<RequestListener> listener);
  /// Ends a request in whatever state it is, at the next step. An unknown or ended id is fine.
  void cancel(RequestId id);
  LoopStats stats() const;

  /// From now on submit() refuses; what was accepted goes on.
  void close();
  /// Closes, waits until all have ended, at most `grace`, cancels the others, and ends the thread.
  /// The second call does nothing. Not from a listener.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Arrival {
    RequestId id;
    Request request;
    std::unique_ptr<RequestListener> listener;
  };
  struct Inbox {
    std::vector<Arrival> arrivals;
    std::vector<RequestId> cancels;
    bool cancel_all = false;  // the last there will be
  };

  Result<void> check_room(const std::string& tenant) const;
  void run();
  Inbox wait_for_news();
  void note(const std::vector<EndedRequest>& ended);

  Engine& engine_;
  const EngineLoopOptions options_;
  Scheduler scheduler_;  // the thread's own

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable news_;
  std::condition_variable all_ended_;
  Inbox inbox_;
  std::map<std::string, int64_t> present_;  // requests that have not ended, of each tenant
  int64_t num_present_ = 0;
  int64_t next_id_ = 0;
  bool closed_ = false;
  bool stopping_ = false;
  LoopStats stats_;

  std::thread thread_;
};

}  // namespace quire::engine
