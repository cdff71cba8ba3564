#include "loadtest/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace quire::loadtest {
namespace {

using formats::Json;

struct Column {
  const char* name;  // for people
  const char* key;   // for programs
  double (*value)(const Summary& summary);
  int digits;
};

constexpr double kMs = 1000.0;

double known(const std::optional<int64_t>& value) {
  return value ? static_cast<double>(*value) : std::numeric_limits<double>::quiet_NaN();
}

const auto kColumns = std::to_array<Column>({
    {"ok", "ok", [](const Summary& s) { return static_cast<double>(s.ok); }, 0},
    {"failed", "failed", [](const Summary& s) { return static_cast<double>(s.failed); }, 0},
    {"req/s", "requests_per_second", [](const Summary& s) { return s.requests_per_second; }, 2},
    {"tok/s", "output_tokens_per_second",
     [](const Summary& s) { return s.output_tokens_per_second; }, 1},
    {"TTFT p50", "ttft_ms_p50", [](const Summary& s) { return kMs * s.ttft.p50; }, 1},
    {"p90", "ttft_ms_p90", [](const Summary& s) { return kMs * s.ttft.p90; }, 1},
    {"p99", "ttft_ms_p99", [](const Summary& s) { return kMs * s.ttft.p99; }, 1},
    {"TPOT p50", "tpot_ms_p50", [](const Summary& s) { return kMs * s.tpot.p50; }, 1},
    {"p90", "tpot_ms_p90", [](const Summary& s) { return kMs * s.tpot.p90; }, 1},
    {"p99", "tpot_ms_p99", [](const Summary& s) { return kMs * s.tpot.p99; }, 1},
    {"ITL p50", "itl_ms_p50", [](const Summary& s) { return kMs * s.itl.p50; }, 1},
    {"p90", "itl_ms_p90", [](const Summary& s) { return kMs * s.itl.p90; }, 1},
    {"p99", "itl_ms_p99", [](const Summary& s) { return kMs * s.itl.p99; }, 1},
    {"E2E p50", "e2e_ms_p50", [](const Summary& s) { return kMs * s.e2e.p50; }, 1},
    {"p90", "e2e_ms_p90", [](const Summary& s) { return kMs * s.e2e.p90; }, 1},
    {"p99", "e2e_ms_p99", [](const Summary& s) { return kMs * s.e2e.p99; }, 1},
    {"goodput", "goodput", [](const Summary& s) { return s.goodput; }, 2},
    {"met %", "objective_share", [](const Summary& s) { return 100.0 * s.objective_share; }, 1},
    {"pages", "peak_pages", [](const Summary& s) { return known(s.peak_pages); }, 0},
    {"evicted", "evicted_pages", [](const Summary& s) { return known(s.evicted_pages); }, 0},
    {"preempted", "preemptions", [](const Summary& s) { return known(s.preemptions); }, 0},
    {"cached %", "cached_share", [](const Summary& s) { return 100.0 * s.cached_share(); }, 1},
});

std::string load_name(const Load& load) {
  return load.rate ? fmt::format("{:g}/s", *load.rate)
                   : std::to_string(load.concurrency.value_or(1));
}

std::string cell(const Column& column, const Summary& summary) {
  const double value = column.value(summary);
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, column.digits) : "-";
}

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const Report& report, bool keys) {
  std::vector<Row> rows(1, Row{"load"});
  for (const Column& column : kColumns) rows[0].push_back(keys ? column.key : column.name);
  for (const Summary& summary : report.loads) {
    Row row = {load_name(summary.load)};
    for (const Column& column : kColumns) row.push_back(cell(column, summary));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string aligned(const std::vector<Row>& rows, ReportFormat format) {
  std::vector<size_t> widths(rows[0].size(), 3);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const bool markdown = format == ReportFormat::kMarkdown;
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (markdown) text += "|";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string padded = fmt::format("{:>{}}", rows[r][i], widths[i]);
      text += markdown ? " " + padded + " |" : padded + "  ";
    }
    while (text.ends_with(' ')) text.pop_back();
    text += "\n";
    if (r > 0 || !markdown) continue;
    text += "|";
    for (const size_t width : widths) text += std::string(width + 1, '-') + ":|";
    text += "\n";
  }
  return text;
}

Json load_json(const Summary& summary) {
  Json json;
  if (summary.load.rate) json.set("rate", *summary.load.rate);
  if (summary.load.concurrency) json.set("concurrency", *summary.load.concurrency);
  for (const Column& column : kColumns) {
    const double value = column.value(summary);
    json.set(column.key, std::isfinite(value) ? Json(value) : Json());
  }
  json.set("ok", summary.ok);
  json.set("failed", summary.failed);
  // As shares, not percentages.
  json.set("objective_share", summary.objective_share);
  json.set("cached_share", summary.cached_share());
  json.set("holds", summary.holds);
  json.set("seconds", summary.seconds);
  json.set("prompt_tokens", summary.prompt_tokens);
  json.set("cached_tokens", summary.cached_tokens);
  json.set("output_tokens", summary.output_tokens);
  if (!summary.first_error.empty()) json.set("first_error", summary.first_error);
  return json;
}

Json milliseconds(const std::optional<double>& seconds) {
  return seconds ? Json(kMs * *seconds) : Json();
}

std::string remarks(const Report& report) {
  std::string text;
  for (const Summary& summary : report.loads) {
    if (summary.failed == 0) continue;
    text +=
        fmt::format("load {}: {} of {} requests failed; the first: {}\n", load_name(summary.load),
                    summary.failed, summary.ok + summary.failed, summary.first_error);
  }
  if (!report.objectives.any()) return text;
  const auto largest = largest_that_holds(report.loads);
  text += largest ? fmt::format(
                        "largest concurrency that holds the objectives for {:g} % of the "
                        "requests: {}\n",
                        100.0 * report.objectives.share, *largest)
                  : std::string("no concurrency that was tried holds the objectives\n");
  return text;
}

}  // namespace

Json report_json(const Report& report) {
  Json workload;
  workload.set("shared_words", report.workload.shared_words);
  workload.set("prompt_words", report.workload.prompt_words);
  workload.set("turns", report.workload.turns);
  workload.set("max_tokens", report.max_tokens);
  workload.set("seed", report.workload.seed);
  Json objectives;
  objectives.set("ttft_ms", milliseconds(report.objectives.ttft));
  objectives.set("tpot_ms", milliseconds(report.objectives.tpot));
  objectives.set("e2e_ms", milliseconds(report.objectives.e2e));
  objectives.set("share", report.objectives.share);
  Json loads{Json::Array{}};
  for (const Summary& summary : report.loads) loads.push_back(load_json(summary));
  Json json;
  json.set("url", report.url);
  json.set("model", report.model);
  json.set("workload", std::move(workload));
  json.set("objectives", std::move(objectives));
  json.set("loads", std::move(loads));
  const auto largest = largest_that_holds(report.loads);
  json.set("max_concurrency", report.objectives.any() && largest ? Json(*largest) : Json());
  return json;
}

std::string report_text(const Report& report, ReportFormat format) {
  std::string text;
  switch (format) {
    case ReportFormat::kJsonLines:
      for (const Summary& summary : report.loads) text += load_json(summary).dump() + "\n";
      return text;
    case ReportFormat::kCsv:
      for (const Row& row : rows_of(report, true)) {
        text += fmt::format("{}\n", fmt::join(row, ","));
      }
      return text;
    case ReportFormat::kTable:
    case ReportFormat::kMarkdown:
      break;
  }
  text = fmt::format("{} at {}: {} words of prompt, {} shared, {} turns, at most {} tokens\n\n",
                     report.model, report.url, report.workload.prompt_words,
                     report.workload.shared_words, report.workload.turns, report.max_tokens);
  text += aligned(rows_of(report, false), format) + "\n";
  text += "load: requests at once, or a second; times in ms\n";
  return text + remarks(report);
}

formats::LineChart report_chart(const Report& report) {
  using formats::ChartLine;
  formats::LineChart chart{.title = "Latency against throughput",
                           .subtitle = report.model,
                           .x_name = "output tokens a second",
                           .y_unit = formats::LineChart::Unit::kCount,
                           .lines = {}};
  struct Series {
    const char* name;
    double (*value)(const Summary& summary);
  };
  constexpr auto kSeries =
      std::to_array<Series>({{"TTFT p50, ms", [](const Summary& s) { return kMs * s.ttft.p50; }},
                             {"TTFT p99, ms", [](const Summary& s) { return kMs * s.ttft.p99; }},
                             {"TPOT p50, ms", [](const Summary& s) { return kMs * s.tpot.p50; }},
                             {"ITL p99, ms", [](const Summary& s) { return kMs * s.itl.p99; }}});
  for (const Series& series : kSeries) {
    ChartLine line{.name = series.name};
    for (const Summary& summary : report.loads) {
      const double value = series.value(summary);
      if (std::isfinite(value)) line.points.push_back({summary.output_tokens_per_second, value});
    }
    std::sort(line.points.begin(), line.points.end(),
              [](const auto& a, const auto& b) { return a.x < b.x; });
    if (!line.points.empty()) chart.lines.push_back(std::move(line));
  }
  return chart;
}

}  // namespace quire::loadtest
