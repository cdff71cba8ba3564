#include "engine/schedule_plan.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace quire::engine {
namespace {

using Counts = std::map<std::string_view, int64_t>;

Counts count_by_tenant(std::span<const Contender> running) {
  Counts counts;
  for (const Contender& one : running) ++counts[one.tenant];
  return counts;
}

}  // namespace

std::optional<size_t> next_to_start(std::span<const Contender> waiting,
                                    std::span<const Contender> running) {
  Counts counts = count_by_tenant(running);
  std::optional<size_t> next;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (!next) {
      next = i;
      continue;
    }
    const int64_t mine = counts[waiting[i].tenant];
    const int64_t best = counts[waiting[*next].tenant];
    if (mine < best || (mine == best && waiting[i].id < waiting[*next].id)) next = i;
  }
  return next;
}

size_t whom_to_preempt(std::span<const Contender> running) {
  QUIRE_CHECK(!running.empty(), "nobody runs");
  Counts counts = count_by_tenant(running);
  size_t victim = 0;
  for (size_t i = 1; i < running.size(); ++i) {
    const int64_t mine = counts[running[i].tenant];
    const int64_t most = counts[running[victim].tenant];
    if (mine > most || (mine == most && running[i].id > running[victim].id)) victim = i;
  }
  return victim;
}

std::optional<size_t> whom_to_replace(const Contender& candidate,
                                      std::span<const Contender> running) {
  if (running.empty()) return std::nullopt;
  Counts counts = count_by_tenant(running);
  const size_t victim = whom_to_preempt(running);
  if (counts[running[victim].tenant] < counts[candidate.tenant] + 2) return std::nullopt;
  return victim;
}

std::vector<int64_t> divide_tokens(std::span<const Reader> readers, int64_t tokens) {
  std::vector<int64_t> given(readers.size(), 0);
  while (tokens > 0) {
    // The first of each tenant that can still read.
    std::map<std::string_view, size_t> firsts;
    for (size_t i = readers.size(); i-- > 0;) {
      if (given[i] < readers[i].limit) firsts[readers[i].tenant] = i;
    }
    if (firsts.empty()) return given;
    const auto share = std::max<int64_t>(1, tokens / static_cast<int64_t>(firsts.size()));
    for (const auto& [tenant, i] : firsts) {
      const int64_t take = std::min({share, readers[i].limit - given[i], tokens});
      given[i] += take;
      tokens -= take;
    }
  }
  return given;
}

}  // namespace quire::engine
