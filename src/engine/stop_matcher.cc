#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace quire::engine {
namespace {

/// Length of the longest end of `text` that is a proper beginning of `stop`.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
  held_ += text;
  size_t best_end = std::string::npos;
  size_t best_begin = 0;
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    const size_t begin = held_.find(stop);
    if (begin == std::string::npos) {
      keep = std::max(keep, overlap(held_, stop));
      continue;
    }
    const size_t end = begin + stop.size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_end = end;
      best_begin = begin;
      matched_ = stop;
    }
  }
  const size_t shown = matched_ ? best_begin : held_.size() - keep;
  std::string out = held_.substr(0, shown);
  held_.erase(0, matched_ ? held_.size() : shown);
  return out;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace quire::engine
