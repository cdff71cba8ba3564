// bench_report.h: the results of `bench` as a table, CSV, Markdown, JSON and a chart.
//
// Pure functions: the same results give the same text.
#pragma once
#include <string>

#include "cli/benchmark.h"
#include "formats/json.h"
#include "formats/line_chart.h"

namespace quire::cli {

enum class BenchFormat : uint8_t { kTable, kJson, kCsv, kMarkdown };

/// What was measured on what.
struct BenchSubject {
  std::string model;
  int64_t weights_bytes = 0;
  std::string machine;
  int64_t repetitions = 0;
};

std::string bench_text(const BenchSubject& subject, const BenchReport& report, BenchFormat format);
formats::Json bench_json(const BenchSubject& subject, const BenchReport& report);
/// Tokens a second against depth, a line for each test, batch, codec and number of threads.
formats::LineChart bench_chart(const BenchSubject& subject, const BenchReport& report);

}  // namespace quire::cli
