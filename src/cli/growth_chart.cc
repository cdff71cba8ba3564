// The chart of `inspect --svg`: every codec and strategy on one pair of axes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_size.h"
#include "cli/inspection.h"
#include "engine/kv_plan.h"

namespace quire::cli {
namespace {

using formats::ChartLine;
using formats::ChartPoint;
using formats::LineChart;
using kv::Codec;

constexpr std::array kChartCodecs = {
    kv::KvCodecs{Codec::F32, Codec::F32}, kv::KvCodecs{Codec::F16, Codec::F16},
    kv::KvCodecs{Codec::Q8, Codec::Q8},   kv::KvCodecs{Codec::Q6, Codec::Q6},
    kv::KvCodecs{Codec::Q6, Codec::Q4},   kv::KvCodecs{Codec::Q4, Codec::Q4},
    kv::KvCodecs{Codec::Q3, Codec::Q3}};
constexpr kv::KvCodecs kPlain{Codec::F16, Codec::F16};
constexpr int32_t kSinks = 4;
constexpr int64_t kSamples = 512;

/// Bytes held at 0, 1 and then every few tokens, so that whole pages show as steps.
std::vector<ChartPoint> held_over(const kv::KvGeometry& geometry, int64_t last) {
  const int64_t step = std::max<int64_t>(1, last / kSamples);
  std::vector<ChartPoint> points = {{0.0, 0.0}};
  for (int64_t tokens = 1; tokens < last; tokens += step) {
    points.push_back(
        {static_cast<double>(tokens), static_cast<double>(geometry.held_bytes(tokens))});
  }
  points.push_back({static_cast<double>(last), static_cast<double>(geometry.held_bytes(last))});
  return points;
}

ChartLine flat(std::string name, double bytes, int64_t last) {
  return {.name = std::move(name),
          .points = {{0.0, bytes}, {static_cast<double>(last), bytes}},
          .style = ChartLine::Style::kDashed};
}

/// What is in memory when more than `budget` waits in a file.
ChartLine offloaded(const kv::KvGeometry& geometry, int64_t last, int64_t budget) {
  ChartLine line{.name = fmt::format("offloaded to {} f16", format_bytes(budget)),
                 .points = held_over(geometry, last),
                 .style = ChartLine::Style::kDashed};
  for (ChartPoint& point : line.points) point.y = std::min(point.y, static_cast<double>(budget));
  return line;
}

engine::SlidingWindow chart_window(const Inspection& inspection) {
  if (inspection.cache.sliding) return *inspection.cache.sliding;
  const auto quarter = static_cast<int32_t>(std::max<int64_t>(1, inspection.window_tokens / 4));
  return {.window_tokens = quarter, .sink_tokens = kSinks};
}

ChartLine measured(const Inspection& inspection) {
  ChartLine line{.name = fmt::format("measured: {} {}", engine::name(inspection.cache),
                                     kv::name(inspection.geometry->codecs())),
                 .points = {},
                 .style = ChartLine::Style::kDots};
  for (const GrowthStep& step : inspection.growth) {
    line.points.push_back({static_cast<double>(step.tokens), static_cast<double>(step.bytes_held)});
  }
  return line;
}

}  // namespace

Result<LineChart> growth_chart(const Inspection& inspection) {
  const int64_t last = inspection.window_tokens;
  LineChart chart{.title = "Keys and values held over tokens",
                  .subtitle = inspection.geometry->formula(),
                  .x_name = "tokens of one sequence",
                  .lines = {}};
  for (const kv::KvCodecs codecs : kChartCodecs) {
    QUIRE_TRY(const kv::KvGeometry geometry, engine::kv_geometry(*inspection.config, codecs));
    chart.lines.push_back(
        {.name = "dynamic " + kv::name(codecs), .points = held_over(geometry, last)});
  }
  QUIRE_TRY(const kv::KvGeometry plain, engine::kv_geometry(*inspection.config, kPlain));
  const int64_t peak = plain.peak_bytes(last, inspection.chunk_tokens);
  chart.lines.push_back(flat("static f16", static_cast<double>(peak), last));
  engine::CachePolicy policy;
  policy.sliding = chart_window(inspection);
  QUIRE_TRY(const kv::KvGeometry sliding,
            engine::kv_geometry(*inspection.config, kPlain, policy.sliding));
  chart.lines.push_back({.name = engine::name(policy) + " f16",
                         .points = held_over(sliding, last),
                         .style = ChartLine::Style::kDashed});
  chart.lines.push_back(offloaded(plain, last, peak / 4));
  chart.lines.push_back(flat("none (recomputed)", 0.0, last));
  chart.lines.push_back(measured(inspection));
  return chart;
}

}  // namespace quire::cli
