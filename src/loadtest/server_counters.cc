#include "loadtest/server_counters.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <string>

namespace quire::loadtest {
namespace {

constexpr size_t kMostPageBytes = 8 << 20;
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kInterval{500};

std::optional<double> first_known(std::string_view page, std::string_view ours,
                                  std::string_view theirs) {
  const auto value = metric_value(page, ours);
  return value ? value : metric_value(page, theirs);
}

/// The number that ends a line.
std::optional<double> last_number(std::string_view line) {
  const std::string text(line.substr(line.rfind(' ') + 1));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::nullopt : std::optional(value);
}

}  // namespace

std::optional<double> metric_value(std::string_view page, std::string_view name) {
  std::optional<double> sum;
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size());
    const std::string_view line = page.substr(0, end);
    page.remove_prefix(std::min(end + 1, page.size()));
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    if (line[name.size()] != ' ' && line[name.size()] != '{') continue;
    if (const auto value = last_number(line)) sum = sum.value_or(0.0) + *value;
  }
  return sum;
}

ServerCounters read_counters(const Target& target) {
  std::string page;
  HttpRequest request{.method = "GET", .path = "/metrics", .headers = {}, .body = {}};
  if (!target.api_key.empty()) {
    request.headers.push_back({"Authorization", "Bearer " + target.api_key});
  }
  const Patience patience{.deadline = std::chrono::steady_clock::now() + kPatience};
  const auto status = exchange(target.address, request, patience, [&](std::string_view bytes) {
    page += bytes;
    return page.size() <= kMostPageBytes;
  });
  if (!status.ok() || *status != 200) return {};  // such servers are measured without it
  return {
      .evicted_pages = metric_value(page, "quire_pages_evicted_total"),
      .preemptions = first_known(page, "quire_num_preemptions_total", "vllm:num_preemptions_total"),
      .pages_in_use = metric_value(page, "quire_pages_held_by_sequences")};
}

PageWatch::PageWatch(const Target& target)
    : thread_([this, &target](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wakes;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          const auto pages = read_counters(target).pages_in_use;
          if (!pages) return;
          peak_ = std::max(peak_.load(), static_cast<int64_t>(*pages));
          wakes.wait_for(lock, stop, kInterval, [] { return false; });
        }
      }) {}

std::optional<int64_t> PageWatch::peak() {
  thread_ = {};
  return peak_ < 0 ? std::nullopt : std::optional(peak_.load());
}

}  // namespace quire::loadtest
