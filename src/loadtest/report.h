// report.h: the results of a load test as a table, Markdown, CSV, JSON and a picture.
//
// Pure functions; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/line_chart.h"
#include "loadtest/statistics.h"
#include "loadtest/workload.h"

namespace quire::loadtest {

struct Report {
  std::string url;
  std::string model;
  Workload workload;
  int64_t max_tokens = 0;
  Objectives objectives;
  std::vector<Summary> loads;
};

enum class ReportFormat : uint8_t { kTable, kMarkdown, kCsv, kJsonLines };

std::string report_text(const Report& report, ReportFormat format);
/// {url, model, workload{}, objectives{}, loads[], max_concurrency}
formats::Json report_json(const Report& report);
/// Latency in milliseconds over output tokens a second: one dot a load.
formats::LineChart report_chart(const Report& report);

}  // namespace quire::loadtest
