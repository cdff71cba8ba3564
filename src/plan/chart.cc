#include "plan/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/byte_size.h"

namespace quire::plan {
namespace {

constexpr double kLeft = 90, kRight = 640, kTop = 50, kBottom = 380;
constexpr int kSteps = 64;
constexpr int kGridLines = 5;

struct Line {
  std::string_view codec;
  std::string_view colour;
};
// Distinguishable without colour vision too: light to dark.
constexpr std::array kLines = {Line{"f32", "#7a7a7a"}, Line{"f16", "#1f6fb2"},
                               Line{"q8", "#2a9d63"}, Line{"q6/q4", "#d08700"},
                               Line{"q4", "#b5391f"}};

struct Scale {
  int64_t tokens = 1;
  int64_t bytes = 1;

  double x(int64_t at) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(at) / static_cast<double>(tokens);
  }
  double y(int64_t at) const {
    return kBottom - (kBottom - kTop) * static_cast<double>(at) / static_cast<double>(bytes);
  }
};

std::vector<int64_t> totals(const ModelShape& shape, PlanRequest request, std::string_view codec,
                            int64_t most) {
  request.kv = *kv::codecs_from_name(codec);
  request.mean_context = std::nullopt;
  const int64_t shared = request.shared;
  std::vector<int64_t> out;
  for (int step = 0; step <= kSteps; ++step) {
    request.context = std::max<int64_t>(most / kSteps * step + most % kSteps * step / kSteps, 1);
    request.shared = std::min(shared, request.context);
    out.push_back(plan_memory(shape, request).total);
  }
  return out;
}

/// XML's special characters spelled out.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 32) {
      out += c;
    }
  }
  return out;
}

std::string text(double x, double y, std::string_view anchor, std::string_view content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(content));
}

std::string grid(const Scale& scale) {
  std::string out;
  for (int i = 0; i <= kGridLines; ++i) {
    const int64_t bytes = scale.bytes / kGridLines * i;
    const int64_t tokens = scale.tokens / kGridLines * i;
    out +=
        fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#888\" stroke-opacity=\"0.3\"/>\n",
                    kLeft, scale.y(bytes), kRight);
    out += text(kLeft - 8, scale.y(bytes) + 4, "end", format_bytes(bytes));
    out += text(scale.x(tokens), kBottom + 18, "middle", format_count(tokens));
  }
  return out + text((kLeft + kRight) / 2, kBottom + 38, "middle", "tokens of each sequence");
}

std::string curve(const Scale& scale, const Line& line, const std::vector<int64_t>& points) {
  std::string path;
  for (size_t i = 0; i < points.size(); ++i) {
    const int64_t tokens = scale.tokens / kSteps * static_cast<int64_t>(i) +
                           scale.tokens % kSteps * static_cast<int64_t>(i) / kSteps;
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", scale.x(tokens), scale.y(points[i]));
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                     line.colour);
}

std::string limit_line(const Scale& scale, int64_t memory) {
  if (memory <= 0 || memory > scale.bytes) return "";
  return fmt::format(
             "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#d00\" stroke-dasharray=\"6 4\"/>\n",
             kLeft, scale.y(memory), kRight) +
         text(kRight, scale.y(memory) - 6, "end", "limit " + format_bytes(memory));
}

}  // namespace

std::string memory_chart(const ModelShape& shape, const PlanRequest& request) {
  Scale scale;
  scale.tokens = shape.context > 0 ? std::max(shape.context, request.context)
                                   : std::min(request.context * 4, kv::kMaxTokens);
  std::vector<std::vector<int64_t>> curves;
  for (const Line& line : kLines) {
    curves.push_back(totals(shape, request, line.codec, scale.tokens));
    scale.bytes = std::max(scale.bytes, curves.back().back());
  }
  scale.bytes = std::max(scale.bytes, request.memory + request.memory / 20);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 440\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"760\" height=\"440\" fill=\"#fff\"/>\n";
  svg += text(
      kLeft, 28, "start",
      fmt::format("{}: memory of {} sequence{} by KV codec", shape.family,
                  format_count(request.all_sequences()), request.all_sequences() == 1 ? "" : "s"));
  svg += grid(scale);
  for (size_t i = 0; i < kLines.size(); ++i) {
    svg += curve(scale, kLines[i], curves[i]);
    const double at = kTop + 18.0 * static_cast<double>(i);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n",
                       kRight + 20, at, kLines[i].colour);
    svg += text(kRight + 40, at + 6, "start", kLines[i].codec);
  }
  return svg + limit_line(scale, request.memory) + "</svg>\n";
}

}  // namespace quire::plan
