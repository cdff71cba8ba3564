#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/report.h"

namespace quire::cli {
namespace {

using formats::Json;

double median(const BenchResult& result) {
  return percentile(result.tok_s, 0.5);
}

std::string rows(const BenchReport& report, std::string_view pattern, std::string_view first) {
  std::string out(first);
  for (const BenchResult& r : report.results) {
    const std::string fraction = r.limit_fraction ? fmt::format("{:.3f}", *r.limit_fraction) : "";
    out += fmt::format(fmt::runtime(pattern), r.test, r.depth, r.batch, r.kv, r.threads, median(r),
                       percentile(r.tok_s, 0.1), percentile(r.tok_s, 0.9), fraction,
                       r.read_rate / 1e9, 100.0 * r.stolen);
  }
  return out;
}

std::string profiles(const BenchReport& report) {
  std::string out;
  for (const BenchResult& r : report.results) {
    if (r.profile_text.empty()) continue;
    out += fmt::format("\n{} at {} x{}, {}, {} thread{}\n{}", r.test, r.depth, r.batch, r.kv,
                       r.threads, r.threads == 1 ? "" : "s", r.profile_text);
  }
  return out;
}

std::string heading(const BenchSubject& subject, const BenchReport& report) {
  std::string peak;
  if (report.int8_peak > 0) peak = fmt::format(", {:.0f} GOP/s", report.int8_peak / 1e9);
  return fmt::format("{}, {} of weights; {}, {}{}; median of {}\n", subject.model,
                     format_bytes(subject.weights_bytes), subject.machine, report.isa, peak,
                     subject.repetitions);
}

Json result_json(const BenchResult& r) {
  Json json;
  json.set("test", r.test);
  json.set("depth", r.depth);
  json.set("batch", r.batch);
  json.set("kv", r.kv);
  json.set("threads", int64_t{r.threads});
  json.set("tok_s_median", median(r));
  json.set("p10", percentile(r.tok_s, 0.1));
  json.set("p90", percentile(r.tok_s, 0.9));
  json.set("limit_fraction", r.limit_fraction ? Json(*r.limit_fraction) : Json());
  json.set("read_bytes_per_second", r.read_rate);
  json.set("stolen", r.stolen);
  if (!r.profile.is_null()) json.set("profile", r.profile);
  return json;
}

}  // namespace

std::string bench_text(const BenchSubject& subject, const BenchReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kCsv:
      return rows(report, "{},{},{},{},{},{:.3f},{:.3f},{:.3f},{},{:.3f},{:.1f}\n",
                  "test,depth,batch,kv,threads,tok_s_median,p10,p90,limit_fraction,read_gb_s,"
                  "stolen_percent\n");
    case BenchFormat::kMarkdown:
      return heading(subject, report) + "\n" +
             rows(
                 report,
                 "| {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {} | {:.1f} | {:.1f} |\n",
                 "| test | depth | batch | kv | threads | tok/s | p10 | p90 | of the limit | reads "
                 "GB/s | stolen % |\n|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|\n");
    case BenchFormat::kTable:
    case BenchFormat::kJson:
      break;
  }
  return heading(subject, report) +
         rows(
             report,
             "{:<8} {:>7} {:>6} {:<8} {:>7} {:>9.1f} {:>9.1f} {:>9.1f} {:>12} {:>10.1f} {:>8.1f}\n",
             fmt::format("{:<8} {:>7} {:>6} {:<8} {:>7} {:>9} {:>9} {:>9} {:>12} {:>10} {:>8}\n",
                         "test", "depth", "batch", "kv", "threads", "tok/s", "p10", "p90",
                         "of the limit", "reads GB/s", "stolen %")) +
         profiles(report);
}

Json bench_json(const BenchSubject& subject, const BenchReport& report) {
  Json results(Json::Array{});
  double read_rate = 0.0;
  int32_t threads = 0;
  for (const BenchResult& result : report.results) {
    results.push_back(result_json(result));
    read_rate = std::max(read_rate, result.read_rate);
    threads = std::max(threads, result.threads);
  }
  Json json;
  json.set("model", utf8_sanitized(subject.model));
  json.set("machine", subject.machine);
  json.set("isa", report.isa);
  json.set("threads", int64_t{threads});
  json.set("weights_bytes", subject.weights_bytes);
  json.set("read_bytes_per_second", read_rate);
  json.set("int8_operations_per_second", report.int8_peak > 0 ? Json(report.int8_peak) : Json());
  json.set("repetitions", subject.repetitions);
  json.set("results", std::move(results));
  return json;
}

formats::LineChart bench_chart(const BenchSubject& subject, const BenchReport& report) {
  formats::LineChart chart{.title = "Tokens a second over tokens in the cache",
                           .subtitle = fmt::format("{}; {}, {}", utf8_sanitized(subject.model),
                                                   subject.machine, report.isa),
                           .x_name = "tokens in the cache",
                           .y_unit = formats::LineChart::Unit::kCount,
                           .lines = {}};
  for (const BenchResult& r : report.results) {
    const std::string name = fmt::format("{} {}{}, {} thread{}", r.test, r.kv,
                                         r.batch == 1 ? "" : fmt::format(" x {}", r.batch),
                                         r.threads, r.threads == 1 ? "" : "s");
    auto line = std::ranges::find(chart.lines, name, &formats::ChartLine::name);
    if (line == chart.lines.end()) {
      chart.lines.push_back({.name = name, .points = {}});
      line = std::prev(chart.lines.end());
    }
    line->points.push_back({static_cast<double>(r.depth), median(r)});
  }
  for (formats::ChartLine& line : chart.lines) {
    std::ranges::sort(line.points, {}, &formats::ChartPoint::x);
  }
  return chart;
}

}  // namespace quire::cli
