#include "loadtest/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::loadtest {
namespace {

double nearest_rank(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

std::optional<double> CallRecord::tpot() const {
  if (output_tokens < 2 || !first_token) return std::nullopt;
  return (done - *first_token) / static_cast<double>(output_tokens - 1);
}

Percentiles percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {nearest_rank(values, 0.5), nearest_rank(values, 0.9), nearest_rank(values, 0.99)};
}

bool Objectives::met_by(const CallRecord& record) const {
  if (!record.ok()) return false;
  if (ttft && record.ttft() > *ttft) return false;
  if (tpot && record.tpot().value_or(0.0) > *tpot) return false;
  return !e2e || record.e2e() <= *e2e;
}

double Summary::cached_share() const {
  return prompt_tokens == 0
             ? 0.0
             : static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens);
}

Summary summarize(const Load& load, std::span<const CallRecord> records, double seconds,
                  const Objectives& objectives) {
  Summary summary{.load = load, .seconds = seconds};
  std::vector<double> ttft, tpot, itl, e2e;
  int64_t met = 0;
  for (const CallRecord& record : records) {
    met += objectives.met_by(record) ? 1 : 0;
    if (!record.ok()) {
      if (summary.failed++ == 0) summary.first_error = record.error;
      continue;
    }
    ++summary.ok;
    summary.prompt_tokens += record.prompt_tokens;
    summary.cached_tokens += record.cached_tokens;
    summary.output_tokens += record.output_tokens;
    if (record.first_token) ttft.push_back(record.ttft());
    if (const auto time = record.tpot()) tpot.push_back(*time);
    itl.insert(itl.end(), record.gaps.begin(), record.gaps.end());
    e2e.push_back(record.e2e());
  }
  summary.ttft = percentiles(std::move(ttft));
  summary.tpot = percentiles(std::move(tpot));
  summary.itl = percentiles(std::move(itl));
  summary.e2e = percentiles(std::move(e2e));
  if (seconds > 0.0) {
    summary.requests_per_second = static_cast<double>(summary.ok) / seconds;
    summary.output_tokens_per_second = static_cast<double>(summary.output_tokens) / seconds;
    summary.goodput = static_cast<double>(met) / seconds;
  }
  if (!records.empty()) {
    summary.objective_share = static_cast<double>(met) / static_cast<double>(records.size());
  }
  summary.holds = !records.empty() && summary.objective_share >= objectives.share;
  return summary;
}

std::optional<int64_t> largest_that_holds(std::span<const Summary> summaries) {
  int64_t smallest_miss = std::numeric_limits<int64_t>::max();
  for (const Summary& summary : summaries) {
    if (summary.load.concurrency && !summary.holds) {
      smallest_miss = std::min(smallest_miss, *summary.load.concurrency);
    }
  }
  std::optional<int64_t> largest;
  for (const Summary& summary : summaries) {
    if (!summary.load.concurrency || !summary.holds) continue;
    if (*summary.load.concurrency >= smallest_miss) continue;
    largest = std::max(largest.value_or(0), *summary.load.concurrency);
  }
  return largest;
}

std::optional<int64_t> next_concurrency(std::span<const Summary> summaries, int64_t most) {
  if (summaries.empty()) return std::min<int64_t>(1, most);
  const int64_t holds = largest_that_holds(summaries).value_or(0);
  std::optional<int64_t> miss;
  for (const Summary& summary : summaries) {
    if (summary.holds || !summary.load.concurrency) continue;
    miss = std::min(miss.value_or(*summary.load.concurrency), *summary.load.concurrency);
  }
  if (!miss) return holds >= most ? std::nullopt : std::optional(std::min(2 * holds, most));
  const int64_t middle = holds + (*miss - holds) / 2;
  return middle == holds ? std::nullopt : std::optional(middle);
}

}  // namespace quire::loadtest
