// statistics.h: what was measured of requests, and what it amounts to.
//
// TTFT: from sending to the first token that says something. ITL: each gap between tokens. TPOT:
// (E2E - TTFT) / (tokens - 1). Goodput: requests a second that meet every objective.
// Plain values and pure functions; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quire::loadtest {

/// One request. Times are seconds since the load began.
struct CallRecord {
  double sent = 0.0;
  std::optional<double> first_token;
  double done = 0.0;
  std::vector<double> gaps;  // seconds between tokens
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  std::string error;  // empty: it was answered

  bool ok() const { return error.empty(); }
  double ttft() const { return first_token.value_or(done) - sent; }
  double e2e() const { return done - sent; }
  /// Nothing for fewer than two tokens.
  std::optional<double> tpot() const;
};

/// In seconds; NaN where nothing was measured.
struct Percentiles {
  double p50 = 0.0;
  double p90 = 0.0;
  double p99 = 0.0;
};
/// The smallest value that at least this share of all does not exceed (nearest rank).
Percentiles percentiles(std::vector<double> values);

/// Service level objectives, in seconds; absent: none.
struct Objectives {
  std::optional<double> ttft;
  std::optional<double> tpot;
  std::optional<double> e2e;
  double share = 0.95;  // of the requests that must meet them

  bool any() const { return ttft || tpot || e2e; }
  /// A failed request meets none.
  bool met_by(const CallRecord& record) const;
};

/// One load: so many at once, or so many a second.
struct Load {
  std::optional<int64_t> concurrency;
  std::optional<double> rate;
};

struct Summary {
  Load load;
  double seconds = 0.0;
  int64_t ok = 0;
  int64_t failed = 0;
  std::string first_error;
  double requests_per_second = 0.0;  // answered
  double output_tokens_per_second = 0.0;
  Percentiles ttft, tpot, itl, e2e;
  double goodput = 0.0;        // requests a second
  double objective_share = 0;  // of all requests, those that met every objective
  bool holds = false;          // objective_share is at least Objectives::share
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  // Where the server says so.
  std::optional<int64_t> peak_pages, evicted_pages, preemptions;

  double cached_share() const;
};
Summary summarize(const Load& load, std::span<const CallRecord> records, double seconds,
                  const Objectives& objectives);

/// The largest concurrency whose load, and every smaller one's, held the objectives.
std::optional<int64_t> largest_that_holds(std::span<const Summary> summaries);

/// What to try next: doubles while the objectives hold, then halves the interval between the
/// largest that held and the smallest that did not. Nothing when they are neighbours, or at `most`.
std::optional<int64_t> next_concurrency(std::span<const Summary> summaries, int64_t most);

}  // namespace quire::loadtest
