// The maps of `needles --svg`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/needle_report.h"

namespace quire::cli {
namespace {

constexpr int kCellWidth = 46;
constexpr int kCellHeight = 20;
constexpr int kLeft = 64;     // of a map: names of depths
constexpr int kTop = 44;      // of a map: its title and names of lengths
constexpr int kGap = 20;      // between maps
constexpr int kHeading = 56;  // of the picture
constexpr int kLegend = 40;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : utf8_sanitized(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// From red over yellow to green, readable without telling red from green by its lightness.
std::string colour(double share) {
  constexpr std::array<std::array<double, 3>, 3> kStops = {
      {{158, 42, 43}, {233, 196, 106}, {64, 145, 108}}};
  const size_t first = share < 0.5 ? 0 : 1;
  const double t = share * 2.0 - static_cast<double>(first);
  std::array<int, 3> rgb{};
  for (size_t i = 0; i < 3; ++i) {
    rgb[i] = static_cast<int>(std::lround(kStops[first][i] * (1.0 - t) + kStops[first + 1][i] * t));
  }
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

std::string text_at(int x, int y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

/// Above the diagonal what was answered, below it what was told from wrong answers.
std::string cell_at(int x, int y, const NeedleCell& cell) {
  const auto trials = static_cast<double>(cell.trials);
  const int right = x + kCellWidth - 2;
  const int bottom = y + kCellHeight - 2;
  return fmt::format(
      "<g><title>{} at {:.0f} % of {}: {} of {} answered, {} told from wrong answers</title>"
      "<path d=\"M{} {}H{}L{} {}Z\" fill=\"{}\"/><path d=\"M{} {}V{}H{}Z\" fill=\"{}\"/></g>\n",
      name(cell.task), 100.0 * cell.depth, format_count(cell.length), cell.answered, cell.trials,
      cell.chosen, x, y, right, x, bottom, colour(static_cast<double>(cell.answered) / trials),
      right, y, bottom, x, colour(static_cast<double>(cell.chosen) / trials));
}

/// The cells of one task, in columns by length and rows by depth.
std::string draw_map(const NeedleReport& report, NeedleTask task,
                     const std::vector<NeedleCell>& cells, int x, int y) {
  std::set<double> depths;
  for (const NeedleCell& cell : cells) {
    if (cell.task == task) depths.insert(cell.depth);
  }
  std::string out = text_at(x + kLeft, y + 14, "start", name(task));
  const auto& lengths = report.rules.lengths;
  for (size_t i = 0; i < lengths.size(); ++i) {
    out += text_at(x + kLeft + static_cast<int>(i) * kCellWidth + kCellWidth / 2, y + kTop - 8,
                   "middle", format_count(lengths[i]));
  }
  int row = 0;
  for (const double depth : depths) {
    const int top = y + kTop + row * kCellHeight;
    out += text_at(x + kLeft - 8, top + 14, "end", fmt::format("{:.0f} %", 100.0 * depth));
    for (const NeedleCell& cell : cells) {
      if (cell.task != task || cell.depth != depth) continue;
      const auto column = std::ranges::find(lengths, cell.length) - lengths.begin();
      out += cell_at(x + kLeft + static_cast<int>(column) * kCellWidth, top, cell);
    }
    ++row;
  }
  return out;
}

/// The most depths that any task has.
int most_rows(const std::vector<NeedleCell>& cells) {
  std::map<NeedleTask, std::set<double>> depths;
  for (const NeedleCell& cell : cells) depths[cell.task].insert(cell.depth);
  size_t most = 0;
  for (const auto& [task, of_task] : depths) most = std::max(most, of_task.size());
  return static_cast<int>(most);
}

std::string draw_legend(int y) {
  std::string out;
  int x = kGap;
  for (const double share : {0.0, 0.5, 1.0}) {
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\"/>\n", x, y,
                       colour(share));
    out += text_at(x + 20, y + 12, "start", fmt::format("{:.0f} %", 100.0 * share));
    x += 70;
  }
  return out + text_at(x, y + 12, "start",
                       "upper left: answered freely; lower right: told from wrong answers");
}

}  // namespace

std::string draw_svg(const NeedleReport& report) {
  const int map_width = kLeft + static_cast<int>(report.rules.lengths.size()) * kCellWidth + kGap;
  const int width = std::max(640, kGap + static_cast<int>(report.rules.tasks.size()) * map_width);
  std::string body;
  int y = kHeading;
  for (const NeedleResult& result : report.results) {
    const std::vector<NeedleCell> cells = needle_cells(result.run);
    body += text_at(kGap, y + 12, "start", fmt::format("{}, {}", result.cache, result.kv));
    for (size_t i = 0; i < report.rules.tasks.size(); ++i) {
      body +=
          draw_map(report, report.rules.tasks[i], cells, static_cast<int>(i) * map_width, y + 14);
    }
    y += 14 + kTop + most_rows(cells) * kCellHeight + kGap;
  }
  body += draw_legend(y);
  const std::string title = fmt::format(
      "What {} finds in its window of {} tokens{}", report.model, format_count(report.window),
      report.rope_scaling.empty() ? "" : ", stretched by " + report.rope_scaling);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
             width, y + kLegend) +
         fmt::format("<text x=\"{}\" y=\"28\" font-size=\"16\">{}</text>\n", kGap, escaped(title)) +
         body + "</svg>\n";
}

}  // namespace quire::cli
