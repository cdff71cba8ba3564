#include "engine/engine_loop.h"

#include <fmt/format.h>

#include <utility>

namespace quire::engine {

EngineLoop::EngineLoop(Engine& engine, const EngineLoopOptions& options)
    : engine_(engine), options_(options), scheduler_(engine, options.scheduler) {
  stats_.pages = engine.page_counts();
  stats_.kv = engine.kv_stats();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  stop(std::chrono::milliseconds(0));
}

Result<RequestId> EngineLoop::submit(Request request, std::unique_ptr<RequestListener> listener) {
  QUIRE_TRY_VOID(check_request(engine_, request));
  const std::lock_guard lock(mutex_);
  QUIRE_TRY_VOID(check_room(request.tenant));
  const RequestId id{next_id_++};
  ++present_[request.tenant];
  ++num_present_;
  inbox_.arrivals.push_back({id, std::move(request), std::move(listener)});
  news_.notify_one();
  return id;
}

/// A full queue still takes one request of a tenant that has none, so that nobody can lock others
/// out by filling it.
Result<void> EngineLoop::check_room(const std::string& tenant) const {
  if (closed_) return Error{ErrorCode::kBusy, "the server is shutting down: no new requests"};
  const int64_t most = int64_t{scheduler_.max_running()} + options_.max_queue;
  if (num_present_ < most || !present_.contains(tenant)) return {};
  return Error{ErrorCode::kBusy,
               fmt::format("{} requests run or wait already, and the queue takes {}: try again "
                           "later",
                           num_present_, most)};
}

void EngineLoop::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  inbox_.cancels.push_back(id);
  news_.notify_one();
}

LoopStats EngineLoop::stats() const {
  const std::lock_guard lock(mutex_);
  LoopStats stats = stats_;
  stats.waiting = num_present_ - stats.running;
  return stats;
}

void EngineLoop::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void EngineLoop::stop(std::chrono::milliseconds grace) {
  {
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    closed_ = true;
    all_ended_.wait_for(lock, grace, [this] { return num_present_ == 0; });
    inbox_.cancel_all = true;
    news_.notify_one();
  }
  thread_.join();
}

void EngineLoop::run() {
  for (;;) {
    Inbox inbox = wait_for_news();
    for (Arrival& arrival : inbox.arrivals) {
      scheduler_.submit(arrival.id, std::move(arrival.request), std::move(arrival.listener));
    }
    for (const RequestId id : inbox.cancels) scheduler_.cancel(id);
    if (inbox.cancel_all) scheduler_.cancel_all();
    scheduler_.step();
    std::vector<EndedRequest> ended = scheduler_.take_ended();
    if (!scheduler_.has_work()) engine_.check();
    note(ended);
    for (EndedRequest& one : ended) one.listener->on_done(std::move(one.answer));
    if (inbox.cancel_all) return;
  }
}

EngineLoop::Inbox EngineLoop::wait_for_news() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] {
    return scheduler_.has_work() || !inbox_.arrivals.empty() || !inbox_.cancels.empty() ||
           inbox_.cancel_all;
  });
  return std::exchange(inbox_, {});
}

/// The counts are right before anybody hears of an end.
void EngineLoop::note(const std::vector<EndedRequest>& ended) {
  LoopStats stats{.running = scheduler_.num_running(),
                  .counters = scheduler_.counters(),
                  .pages = engine_.page_counts(),
                  .kv = engine_.kv_stats()};
  const std::lock_guard lock(mutex_);
  stats_ = std::move(stats);
  for (const EndedRequest& one : ended) {
    const auto tenant = present_.find(one.tenant);
    if (--tenant->second == 0) present_.erase(tenant);
    --num_present_;
  }
  if (num_present_ == 0) all_ended_.notify_all();
}

}  // namespace quire::engine
