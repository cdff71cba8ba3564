#include "loadtest/load_run.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace quire::loadtest {
namespace {

using Clock = std::chrono::steady_clock;
using formats::Json;

Clock::duration seconds_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Json message(const char* role, const std::string& text) {
  Json json;
  json.set("role", role);
  json.set("content", text);
  return json;
}

class LoadRun {
 public:
  LoadRun(const Target& target, const Workload& workload, const RunLimits& limits,
          bool (*stopped)())
      : target_(target), workload_(workload), limits_(limits), stopped_(stopped) {}

  RunResult closed(int64_t concurrency) {
    std::vector<std::jthread> workers;
    for (int64_t i = 0; i < concurrency; ++i) {
      workers.emplace_back([this] {
        for (int64_t next = next_++; next < limits_.conversations && goes_on(); next = next_++) {
          converse(static_cast<uint64_t>(next));
        }
      });
    }
    workers.clear();
    return result();
  }

  RunResult open(double rate) {
    const auto times = arrival_times(rate, limits_.conversations, workload_.seed);
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < times.size() && times[i] < limits_.seconds; ++i) {
      wait_until(times[i]);
      if (stopped_()) break;
      if (at_once_.load() >= limits_.most_at_once) {
        note({.sent = now(), .done = now(), .error = "not sent: too many at once"});
        continue;
      }
      ++at_once_;
      workers.emplace_back([this, i] {
        converse(i);
        --at_once_;
      });
    }
    workers.clear();
    return result();
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - origin_).count(); }
  bool goes_on() const { return !stopped_() && now() < limits_.seconds; }

  void wait_until(double time) const {
    constexpr double kSlice = 0.1;  // so that a stop is noticed
    while (!stopped_() && now() < time) {
      std::this_thread::sleep_for(seconds_of(std::min(kSlice, time - now())));
    }
  }

  void converse(uint64_t index) {
    const Conversation conversation = make_conversation(workload_, index);
    Json messages{Json::Array{}};
    if (!conversation.system.empty()) messages.push_back(message("system", conversation.system));
    for (const std::string& question : conversation.questions) {
      if (!goes_on() && messages.as_array()->size() > 1) return;
      messages.push_back(message("user", question));
      const Patience patience{Clock::now() + seconds_of(limits_.request_seconds), stopped_};
      ChatReply reply = call_chat(target_, messages, patience, origin_);
      const bool answered = reply.record.ok();
      if (!stopped_() || answered) note(std::move(reply.record));
      if (!answered) return;
      messages.push_back(message("assistant", reply.text));
    }
  }

  void note(CallRecord record) {
    const std::scoped_lock lock(mutex_);
    records_.push_back(std::move(record));
  }

  RunResult result() {
    RunResult result{.records = std::move(records_)};
    for (const CallRecord& record : result.records) {
      result.seconds = std::max(result.seconds, record.done);
    }
    return result;
  }

  const Target& target_;
  const Workload& workload_;
  const RunLimits& limits_;
  bool (*const stopped_)();
  const Clock::time_point origin_ = Clock::now();
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> at_once_{0};
  std::mutex mutex_;  // of records_
  std::vector<CallRecord> records_;
};

}  // namespace

RunResult run_load(const Target& target, const Workload& workload, const Load& load,
                   const RunLimits& limits, bool (*stopped)()) {
  LoadRun run(target, workload, limits, stopped);
  return load.rate ? run.open(*load.rate) : run.closed(load.concurrency.value_or(1));
}

}  // namespace quire::loadtest
