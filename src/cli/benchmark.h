// benchmark.h: what `bench` measures, and how.
//
// A test is warmed up once, then repeated. Around each one stand what the machine could do at that
// moment (the rate of reading memory; its peak of integer products, once) and how much processor
// time went to somebody else, so that a figure of a busy machine is known for one. Use from one
// thread.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/model.h"

namespace quire::cli {

struct BenchTests {
  std::vector<int64_t> prefill = {512};
  int64_t decode = 32;
  std::vector<int64_t> depth = {0};
  std::vector<int64_t> batch = {1};
  std::vector<kv::KvCodecs> codecs = {kv::KvCodecs{}};
  std::vector<int64_t> threads;  // empty: the default
  int64_t repetitions = 5;
  bool profile = false;  // each test's steps; costs a little of its speed
};

struct BenchResult {
  std::string test;  // "pp512", "tg32"
  int64_t depth = 0;
  int64_t batch = 1;
  std::string kv;
  int32_t threads = 1;
  std::vector<double> tok_s;             // one a repetition
  std::optional<double> limit_fraction;  // of the memory's rate, or of the integer peak
  double read_rate = 0.0;                // bytes a second of as many bytes as a step reads
  double stolen = 0.0;                   // share of all processors' time meanwhile
  std::string profile_text;              // with BenchTests::profile
  formats::Json profile;                 // the same
};

/// All results, and what they were measured on.
struct BenchReport {
  std::string isa;
  double int8_peak = 0.0;  // operations a second of the most threads asked for; 0: not known
  std::vector<BenchResult> results;
};

/// kDoesNotFit or kUsage if a test cannot be run; kInterrupted if the user stopped.
Result<BenchReport> run_benchmark(const Environment& env, const engine::Model& model,
                                  const ComputeOptions& compute, const BenchTests& tests,
                                  Output& output);

}  // namespace quire::cli
