#include "cli/window_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_size.h"
#include "formats/printable.h"

namespace quire::cli {
namespace {

using context::window::PartKind;
using context::window::PartReport;
using context::window::Report;

struct KindLook {
  PartKind kind;
  char letter;
  int colour;        // of 256
  const char* fill;  // for SVG
};
constexpr std::array<KindLook, 12> kLooks = {{
    {PartKind::kTemplate, '.', 245, "#9e9e9e"},
    {PartKind::kTools, 'T', 136, "#b8860b"},
    {PartKind::kSystem, 'S', 33, "#1e88e5"},
    {PartKind::kProject, 'P', 38, "#00acc1"},
    {PartKind::kFewShot, 'F', 99, "#8e5bd6"},
    {PartKind::kMemory, 'M', 168, "#d81b7a"},
    {PartKind::kHistory, 'h', 71, "#4c9a52"},
    {PartKind::kToolResult, 't', 172, "#e08a1e"},
    {PartKind::kRag, 'R', 37, "#26a69a"},
    {PartKind::kSummary, 's', 143, "#a3a02f"},
    {PartKind::kState, 'z', 103, "#7986cb"},
    {PartKind::kQuestion, 'Q', 160, "#e53935"},
}};

const KindLook& look_of(PartKind kind) {
  return *std::ranges::find(kLooks, kind, &KindLook::kind);
}

/// For a terminal; an empty text stays empty.
std::string shown(const std::string& text) {
  return text.empty() ? text : formats::printable(text);
}

/// Calls and their results are history, too.
bool same_kind(PartKind a, PartKind b) {
  const auto log = [](PartKind k) { return k == PartKind::kHistory || k == PartKind::kToolResult; };
  return a == b || (log(a) && log(b));
}

/// Neighbouring rows that say the same.
struct Line {
  std::string part;
  int64_t before = 0;
  int64_t after = 0;
  std::string action, why;
};

/// "history#3" and "history#9" make "history#3-9".
std::string range_name(const std::string& first, const std::string& last) {
  const size_t mark = first.find('#');
  const size_t other = last.find('#');
  if (first == last || mark == std::string::npos || other == std::string::npos) return first;
  return first + "-" + last.substr(other + 1);
}

std::string why_of(const PartReport& row) {
  if (row.handle.empty()) return row.why;
  const std::string handle = "handle " + row.handle;
  if (row.why.find(row.handle) != std::string::npos) return row.why;
  return row.why.empty() ? handle : row.why + ", " + handle;
}

std::vector<Line> lines_of(const Report& report) {
  std::vector<Line> lines;
  const PartReport* first = nullptr;
  const PartReport* last = nullptr;
  const auto joins = [&](const PartReport& row) {
    const bool whole = row.action == "kept" || row.action == "summarized" ||
                       row.action == "dropped" || row.action == "replaced" ||
                       row.action == "distilled";
    return last != nullptr && whole && row.action == last->action &&
           same_kind(row.kind, last->kind) && (row.part.find('#') != std::string::npos) &&
           last->part.find('#') != std::string::npos;
  };
  for (const PartReport& row : report.parts) {
    if (row.before == 0 && row.after == 0) continue;
    if (joins(row)) {
      lines.back().before += row.before;
      lines.back().after += row.after;
      lines.back().part = range_name(first->part, row.part);
      if (lines.back().why.find(", handle") != std::string::npos) lines.back().why = row.why;
    } else {
      lines.push_back({row.part, row.before, row.after, row.action, why_of(row)});
      first = &row;
    }
    last = &row;
  }
  return lines;
}

/// Tokens by kind in the order of the prompt, neighbours joined.
std::vector<std::pair<PartKind, int64_t>> runs_of(const Report& report,
                                                  int64_t PartReport::*tokens) {
  std::vector<std::pair<PartKind, int64_t>> runs;
  for (const PartReport& row : report.parts) {
    if (row.*tokens == 0) continue;
    if (!runs.empty() && runs.back().first == row.kind) {
      runs.back().second += row.*tokens;
    } else {
      runs.emplace_back(row.kind, row.*tokens);
    }
  }
  return runs;
}

std::string svg_row(const std::vector<std::pair<PartKind, int64_t>>& runs, double y,
                    double per_token) {
  std::string out;
  double x = 20.0;
  for (const auto& [kind, tokens] : runs) {
    const double width = static_cast<double>(tokens) * per_token;
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"34\" fill=\"{}\">"
        "<title>{} {}</title></rect>\n",
        x, y, width, look_of(kind).fill, context::window::name(kind), tokens);
    x += width;
  }
  return out;
}

}  // namespace

std::string window_head(const Report& report) {
  std::string head = fmt::format("W {} | out {} | usable {} | prompt {}", report.limits.window,
                                 report.budget.reserve, report.budget.usable, report.prompt_tokens);
  if (report.tokens_before != report.prompt_tokens) {
    head += fmt::format(" (was {})", report.tokens_before);
  }
  return head + "\n";
}

std::string window_table(const Report& report) {
  const std::vector<Line> lines = lines_of(report);
  size_t width = 4, action = 6;
  for (const Line& line : lines) {
    width = std::max(width, line.part.size());
    action = std::max(action, line.action.size());
  }
  std::string out = fmt::format("{:<{}}  {:>7} {:>7}  {:<{}}  why\n", "part", width, "before",
                                "after", "action", action);
  for (const Line& line : lines) {
    std::string row = fmt::format("{:<{}}  {:>7} {:>7}  {:<{}}  {}", shown(line.part), width,
                                  line.before, line.after, line.action, action, shown(line.why));
    while (row.ends_with(' ')) row.pop_back();
    out += row + "\n";
  }
  return out;
}

std::string window_bar(const Report& report, BarColour colour, int cells) {
  const auto window = static_cast<double>(std::max<int64_t>(report.limits.window, 1));
  std::string bar, legend;
  int drawn = 0;
  double until = 0.0;
  const auto draw = [&](double tokens, char letter, int shade) {
    until += tokens * cells / window;
    const int count = std::min(static_cast<int>(until + 0.5), cells) - drawn;
    if (count <= 0) return;
    drawn += count;
    const std::string run(static_cast<size_t>(count), letter);
    bar += colour == BarColour::kColours
               ? fmt::format("\x1b[48;5;{}m{}\x1b[0m", shade, std::string(run.size(), ' '))
               : run;
  };
  std::vector<PartKind> seen;
  for (const auto& [kind, tokens] : runs_of(report, &PartReport::after)) {
    const KindLook& look = look_of(kind);
    draw(static_cast<double>(tokens), look.letter, look.colour);
    if (std::ranges::count(seen, kind) > 0) continue;
    seen.push_back(kind);
    legend +=
        colour == BarColour::kColours
            ? fmt::format("  \x1b[48;5;{}m  \x1b[0m {}", look.colour, context::window::name(kind))
            : fmt::format("  {} {}", look.letter, context::window::name(kind));
  }
  const int64_t free = report.limits.window - report.prompt_tokens -
                       std::min(report.budget.reserve, report.limits.window - report.prompt_tokens);
  draw(static_cast<double>(free), ' ', 236);
  draw(static_cast<double>(report.limits.window - report.prompt_tokens - free), '_', 240);
  return fmt::format("[{}]\n{}  _ room for the answer\n", bar, legend);
}

std::string window_svg(const Report& report) {
  constexpr double kWidth = 860.0;
  const int64_t longest = std::max({report.limits.window, report.tokens_before, int64_t{1}});
  const double per_token = (kWidth - 40.0) / static_cast<double>(longest);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"250\" "
      "viewBox=\"0 0 {0:.0f} 250\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"20\" y=\"24\" font-size=\"15\">Context window of {1} tokens, policy {2}</text>\n"
      "<text x=\"20\" y=\"54\">the request: {3} tokens</text>\n",
      kWidth, report.limits.window, context::window::name(report.policy), report.tokens_before);
  out += svg_row(runs_of(report, &PartReport::before), 60, per_token);
  out += fmt::format("<text x=\"20\" y=\"122\">what is sent: {} tokens, {} reserved</text>\n",
                     report.prompt_tokens, report.budget.reserve);
  out += svg_row(runs_of(report, &PartReport::after), 128, per_token);
  const double reserve_x =
      20.0 + static_cast<double>(report.limits.window - report.budget.reserve) * per_token;
  out += fmt::format(
      "<rect x=\"{:.2f}\" y=\"128\" width=\"{:.2f}\" height=\"34\" fill=\"none\" stroke=\"#555\" "
      "stroke-dasharray=\"4 3\"><title>room for the answer</title></rect>\n",
      reserve_x, static_cast<double>(report.budget.reserve) * per_token);
  const double end_x = 20.0 + static_cast<double>(report.limits.window) * per_token;
  out += fmt::format(
      "<line x1=\"{0:.2f}\" y1=\"56\" x2=\"{0:.2f}\" y2=\"166\" stroke=\"black\"/>\n", end_x);
  double x = 20.0;
  for (const KindLook& look : kLooks) {
    const bool used = std::ranges::any_of(report.parts, [&](const PartReport& row) {
      return row.kind == look.kind && (row.before > 0 || row.after > 0);
    });
    if (!used) continue;
    out += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"190\" width=\"12\" height=\"12\" fill=\"{1}\"/>"
        "<text x=\"{2:.0f}\" y=\"201\">{3}</text>\n",
        x, look.fill, x + 16, context::window::name(look.kind));
    x += 28.0 + 7.5 * static_cast<double>(context::window::name(look.kind).size());
  }
  return out + "</svg>\n";
}

}  // namespace quire::cli
