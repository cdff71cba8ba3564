// server_counters.h: what a server says of itself while it is loaded, where it says it.
//
// Read from /metrics in Prometheus' text format, under our names or vLLM's. A server without them
// is no error: nothing is shown then.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>

#include "loadtest/chat_call.h"

namespace quire::loadtest {

/// The sum of a metric over its labels; nothing if the page has none of that name. Pure.
std::optional<double> metric_value(std::string_view page, std::string_view name);

struct ServerCounters {
  std::optional<double> evicted_pages;
  std::optional<double> preemptions;
  std::optional<double> pages_in_use;
};
ServerCounters read_counters(const Target& target);

/// Looks every half second how many pages requests hold, from its construction on. `target` must
/// outlive it. Use from one thread.
class PageWatch {
 public:
  explicit PageWatch(const Target& target);
  /// The most it has seen; stops looking.
  std::optional<int64_t> peak();

 private:
  std::atomic<int64_t> peak_{-1};
  std::jthread thread_;
};

}  // namespace quire::loadtest
