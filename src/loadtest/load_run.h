// load_run.h: puts one load on a server, and records what becomes of every request.
//
// Closed loop: so many conversations at once, each asking its next question when it has its answer.
// Open loop: conversations begin at given times, whatever the server does; one that would exceed
// the bound on those at once is recorded as failed. Every run ends: at its number of requests, at
// its seconds, or when the caller stops it. Blocks; starts threads of its own.
#pragma once
#include <cstdint>
#include <vector>

#include "loadtest/chat_call.h"
#include "loadtest/statistics.h"
#include "loadtest/workload.h"

namespace quire::loadtest {

struct RunLimits {
  int64_t conversations = 32;
  double seconds = 60.0;         // none begins after that
  double request_seconds = 120;  // what is not answered by then has failed
  int64_t most_at_once = 256;
};

struct RunResult {
  std::vector<CallRecord> records;
  double seconds = 0.0;  // from the first sending to the last answer
};

RunResult run_load(const Target& target, const Workload& workload, const Load& load,
                   const RunLimits& limits, bool (*stopped)());

}  // namespace quire::loadtest
