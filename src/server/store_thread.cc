#include "server/store_thread.h"

#include <fmt/format.h>

#include <utility>

namespace quire::server {
namespace {

constexpr std::string_view kWhere = "the server's store of conversations";

ApiError stopped() {
  return unavailable("The server is stopping.");
}

ApiError too_busy() {
  return unavailable(
      fmt::format("{} is busy; try again, or send \"store\": false where nothing stored is needed.",
                  "The server's store of conversations"));
}

}  // namespace

ApiError store_error(const Error& error, const std::string& path) {
  // A conversation that another request, or another program, has changed meanwhile.
  const bool changed = error.code == ErrorCode::kUsage || error.code == ErrorCode::kNotFound;
  std::string message = error.message;
  for (size_t at = message.find(path); at != std::string::npos && !path.empty();
       at = message.find(path)) {
    message.replace(at, path.size(), kWhere);
  }
  ApiError out = from_status(changed ? 409 : 500, fmt::format("Nothing was stored: {}.", message));
  out.code = changed ? "conversation_changed" : "store_failed";
  return out;
}

StoreThread::StoreThread(std::unique_ptr<context::ConversationStore> store, EventLog& log,
                         const StoreThreadOptions& options)
    : store_(std::move(store)), log_(log), options_(options), thread_([this] { run(); }) {}

StoreThread::~StoreThread() {
  stop();
}

void StoreThread::stop() {
  std::deque<Waiting> left;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    left.swap(waiting_);
  }
  news_.notify_all();
  const ApiError error = stopped();
  for (const Waiting& each : left) each.job(&error);
  if (thread_.joinable()) thread_.join();
}

void StoreThread::add(Job job) {
  std::optional<ApiError> refused;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) {
      refused = stopped();
    } else if (waiting_.size() >= options_.most_waiting) {
      refused = too_busy();
    } else {
      waiting_.push_back({std::move(job), Clock::now()});
    }
  }
  if (refused) return job(&*refused);
  news_.notify_one();
}

void StoreThread::run() {
  for (;;) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const bool late = Clock::now() - next.since > options_.longest_wait;
    const ApiError error = too_busy();
    next.job(late ? &error : nullptr);
  }
}

ApiError StoreThread::told(const Error& error) {
  ApiError out = store_error(error, store_->path());
  if (out.status >= 500) {
    failures_.fetch_add(1);
    log_.write(LogLevel::kError, "store", {{"error", error.message}});
  }
  return out;
}

}  // namespace quire::server
