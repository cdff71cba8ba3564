// line_chart.h: lines over one axis, drawn as an SVG file.
//
// What a command's --svg writes: `inspect` draws bytes over tokens, others may draw what they like.
// The text is a whole document without references to anything outside it, and the same for the
// same chart. Lines are told apart by colour and dashes, and named where they end. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::formats {

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;
};

struct ChartLine {
  enum class Style : uint8_t { kSolid, kDashed, kDots };  // dots: each point, unconnected
  std::string name;
  std::vector<ChartPoint> points;  // ascending x
  Style style = Style::kSolid;
};

struct LineChart {
  std::string title;
  std::string subtitle;
  std::string x_name;
  enum class Unit : uint8_t { kCount, kBytes };
  Unit y_unit = Unit::kBytes;
  std::vector<ChartLine> lines;
};

/// Axes from 0 to the largest values, in round steps.
std::string draw_svg(const LineChart& chart);

/// A round step (1, 2 or 5 times a power of ten; a power of two for bytes; at least 1) of which at
/// most `most` reach `end`. Requires end > 0, most > 0.
double round_step(double end, int most, LineChart::Unit unit);

}  // namespace quire::formats
