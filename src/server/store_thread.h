// store_thread.h: the thread on which the server's conversations are read and written.
//
// SQLite waits for disks and for other programs' locks; here it can, and neither the I/O thread nor
// the engine's ever waits for it. Questions are answered in the order in which they came, so that
// what one has stored is there for the next. One that waited too long, or too many, are answered
// with 503. Any thread; answers are given on this one, or on the asking one when it is refused.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "context/conversation_store.h"
#include "server/api_error.h"
#include "server/event_log.h"

namespace quire::server {

struct StoreThreadOptions {
  size_t most_waiting = 1024;
  std::chrono::milliseconds longest_wait{5000};  // for the questions before it
};

class StoreThread {
 public:
  /// `log` must outlive it.
  StoreThread(std::unique_ptr<context::ConversationStore> store, EventLog& log,
              const StoreThreadOptions& options = {});
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  /// `question` runs on the thread. `answer` is called once, and returns soon.
  template <class T>
  void ask(std::function<Result<T>(context::ConversationStore&)> question,
           std::function<void(ApiResult<T>)> answer) {
    add([this, q = std::move(question), a = std::move(answer)](const ApiError* refused) {
      if (refused != nullptr) return a(*refused);
      Result<T> result = q(*store_);
      if (result.ok()) return a(*std::move(result));
      a(told(result.error()));
    });
  }

  /// Refuses what waits and what will come; returns when the running question is answered.
  void stop();

  /// Questions that failed because of the file, since the start.
  int64_t failures() const { return failures_.load(); }

 private:
  using Job = std::function<void(const ApiError* refused)>;
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Job job;
    Clock::time_point since;
  };

  void add(Job job);
  void run();
  /// Notes a failure, and what a client may know of it.
  ApiError told(const Error& error);

  const std::unique_ptr<context::ConversationStore> store_;
  EventLog& log_;
  const StoreThreadOptions options_;
  std::atomic<int64_t> failures_{0};

  std::mutex mutex_;  // guards all below
  std::condition_variable news_;
  std::deque<Waiting> waiting_;
  bool stopping_ = false;

  std::thread thread_;
};

/// What a client is told of a store that failed: its path is nobody's business.
ApiError store_error(const Error& error, const std::string& path);

}  // namespace quire::server
