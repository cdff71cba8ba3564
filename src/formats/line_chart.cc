#include "formats/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/byte_size.h"

namespace quire::formats {
namespace {

constexpr double kWidth = 960.0;
constexpr double kHeight = 540.0;
constexpr double kLeft = 90.0;
constexpr double kRight = 240.0;  // room for the names
constexpr double kTop = 64.0;
constexpr double kBottom = 52.0;
constexpr double kNameHeight = 15.0;

// Okabe and Ito's colours, which colour-blind readers can tell apart; black is for dots.
constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#56b4e9", "#e69f00", "#7f7f7f"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML has no way to write control characters.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart) {
    for (const ChartLine& line : chart.lines) {
      for (const ChartPoint& point : line.points) {
        x_end_ = std::max(x_end_, point.x);
        y_end_ = std::max(y_end_, point.y);
      }
    }
    x_step_ = round_step(x_end_, 8, LineChart::Unit::kCount);
    y_step_ = round_step(y_end_, 6, chart.y_unit);
    y_end_ = std::ceil(y_end_ / y_step_) * y_step_;
  }

  std::string draw() {
    open();
    draw_axes();
    for (size_t i = 0; i < chart_.lines.size(); ++i) draw_line(i);
    draw_names();
    return out_ + "</svg>\n";
  }

 private:
  double at_x(double x) const { return kLeft + x / x_end_ * (kWidth - kLeft - kRight); }
  double at_y(double y) const {
    return kHeight - kBottom - y / y_end_ * (kHeight - kTop - kBottom);
  }
  bool is_dotted(size_t i) const { return chart_.lines[i].style == ChartLine::Style::kDots; }
  std::string_view colour(size_t i) const {
    return is_dotted(i) ? "#000000" : kColours[i % kColours.size()];
  }

  void open() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{2}\" y=\"26\" font-size=\"17\">{3}</text>\n"
        "<text x=\"{2}\" y=\"46\" fill=\"#555555\">{4}</text>\n",
        kWidth, kHeight, kLeft, escaped(chart_.title), escaped(chart_.subtitle));
  }

  void draw_axes() {
    for (double y = 0.0; y <= y_end_ * 1.0001; y += y_step_) {
      out_ += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\"/>\n"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
          kLeft, kWidth - kRight, at_y(y), kLeft - 8.0, at_y(y) + 4.0, y_label(y));
    }
    for (double x = 0.0; x <= x_end_ * 1.0001; x += x_step_) {
      out_ += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#888888\"/>\n"
          "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
          at_x(x), kHeight - kBottom, kHeight - kBottom + 5.0, kHeight - kBottom + 19.0,
          format_count(std::llround(x)));
    }
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                        at_x(x_end_ / 2.0), kHeight - 12.0, escaped(chart_.x_name));
  }

  std::string y_label(double y) const {
    const int64_t value = std::llround(y);
    return chart_.y_unit == LineChart::Unit::kBytes ? format_bytes(value) : format_count(value);
  }

  void draw_line(size_t i) {
    const ChartLine& line = chart_.lines[i];
    if (is_dotted(i)) {
      for (const ChartPoint& p : line.points) {
        out_ +=
            fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", at_x(p.x), at_y(p.y));
      }
      return;
    }
    std::string path;
    for (const ChartPoint& p : line.points)
      path += fmt::format("{:.1f},{:.1f} ", at_x(p.x), at_y(p.y));
    out_ += fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{} points=\"{}\"/>\n", colour(i),
        line.style == ChartLine::Style::kDashed ? " stroke-dasharray=\"7 4\"" : "", path);
  }

  /// Names stand where their lines end, pushed apart so that none covers another.
  void draw_names() {
    struct Name {
      size_t line;
      double y;
    };
    std::vector<Name> names;
    for (size_t i = 0; i < chart_.lines.size(); ++i) {
      if (!chart_.lines[i].points.empty()) {
        names.push_back({i, at_y(chart_.lines[i].points.back().y)});
      }
    }
    std::ranges::stable_sort(names, {}, &Name::y);
    double lowest = kTop;
    for (Name& name : names) {
      name.y = std::max(name.y, lowest);
      lowest = name.y + kNameHeight;
    }
    // What was pushed below the axis is pushed up again.
    double highest = kHeight - kBottom;
    for (size_t i = names.size(); i-- > 0;) {
      names[i].y = std::min(names[i].y, highest);
      highest = names[i].y - kNameHeight;
    }
    for (const Name& name : names) {
      out_ +=
          fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", kWidth - kRight + 10.0,
                      name.y + 4.0, colour(name.line), escaped(chart_.lines[name.line].name));
    }
  }

  const LineChart& chart_;
  double x_end_ = 1.0;
  double y_end_ = 1.0;
  double x_step_ = 1.0;
  double y_step_ = 1.0;
  std::string out_;
};

}  // namespace

double round_step(double end, int most, LineChart::Unit unit) {
  const double least = end / most;
  if (unit == LineChart::Unit::kBytes) return std::max(1.0, std::exp2(std::ceil(std::log2(least))));
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return std::max(1.0, factor * power);
  }
  return std::max(1.0, 10.0 * power);
}

std::string draw_svg(const LineChart& chart) {
  return Drawing(chart).draw();
}

}  // namespace quire::formats
