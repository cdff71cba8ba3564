#include "plan/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_size.h"
#include "formats/line_chart.h"

namespace quire::plan {
namespace {

using formats::ChartLine;
using formats::LineChart;

constexpr int64_t kSamples = 64;
constexpr std::array kCodecs = {"f32", "f16", "q8", "q6/q4", "q4"};

ChartLine totals(const ModelShape& shape, PlanRequest request, std::string_view codec,
                 int64_t last) {
  request.kv = *kv::codecs_from_name(codec);
  request.mean_context = std::nullopt;
  const int64_t shared = request.shared;
  ChartLine line{.name = std::string(codec), .points = {}};
  for (int64_t sample = 0; sample <= kSamples; ++sample) {
    const int64_t tokens = last / kSamples * sample + last % kSamples * sample / kSamples;
    request.context = std::max<int64_t>(tokens, 1);
    request.shared = std::min(shared, request.context);
    line.points.push_back({static_cast<double>(request.context),
                           static_cast<double>(plan_memory(shape, request).total)});
  }
  return line;
}

}  // namespace

std::string memory_chart(const ModelShape& shape, const PlanRequest& request) {
  const int64_t last = shape.context > 0 ? std::max(shape.context, request.context)
                                         : std::min(request.context * 4, kv::kMaxTokens);
  const int64_t sequences = request.all_sequences();
  LineChart chart{.title = fmt::format("{}: memory of {} sequence{} by KV codec", shape.family,
                                       format_count(sequences), sequences == 1 ? "" : "s"),
                  .subtitle = "weights, keys and values, scratch and the program itself",
                  .x_name = "tokens of each sequence",
                  .lines = {}};
  for (const char* codec : kCodecs) chart.lines.push_back(totals(shape, request, codec, last));
  if (request.memory > 0) {
    const auto memory = static_cast<double>(request.memory);
    chart.lines.push_back({.name = "limit " + format_bytes(request.memory),
                           .points = {{0.0, memory}, {static_cast<double>(last), memory}},
                           .style = ChartLine::Style::kDashed});
  }
  return formats::draw_svg(chart);
}

}  // namespace quire::plan
