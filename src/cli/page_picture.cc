#include "cli/page_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/byte_size.h"

namespace quire::cli {
namespace {

constexpr int kBarCells = 24;
constexpr size_t kCellsPerLine = 64;

/// A cell for every page from position 0 on, the freed ones too.
std::string page_cells(const engine::CachedGroup& group) {
  std::string cells;
  for (const engine::CachedPage& page : group.pages) {
    cells.resize(static_cast<size_t>(page.first_position / kv::kPageTokens), '.');
    cells += page_cell(page);
  }
  return cells;
}

std::string group_title(const kv::LayerGroup& group) {
  std::string what =
      group.is_window() ? fmt::format("window of {}", group.window_tokens) : "global";
  if (group.sink_tokens > 0) what += fmt::format(" + {} sinks", group.sink_tokens);
  return fmt::format("{}, layer{} {}", what, group.num_layers() == 1 ? "" : "s",
                     ranges(group.layers));
}

}  // namespace

std::string bar(double share, int cells) {
  const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * cells));
  std::string out;
  for (int i = 0; i < cells; ++i) out += i < full ? "█" : "░";
  return out;
}

std::string ranges(const std::vector<int32_t>& ascending) {
  std::string out;
  for (size_t i = 0; i < ascending.size();) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (!out.empty()) out += ",";
    out += std::to_string(ascending[i]);
    if (last > i) out += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return out;
}

char page_cell(const engine::CachedPage& page) {
  // The open form of a sealed page stays until its last token need not be run again; page 0 of a
  // lossy cache is open only.
  if (page.is_spilled) return page.is_shared ? 'X' : 'x';
  if (page.is_sealed) return page.is_shared ? 'S' : 's';
  return page.is_shared ? 'O' : 'o';
}

std::string page_picture(const kv::KvGeometry& geometry, const engine::SequenceCache& cache) {
  int64_t most = 1;
  for (const engine::CachedGroup& group : cache.groups) {
    most = std::max(most, group.bytes_held + group.bytes_spilled);
  }
  std::string out;
  for (size_t g = 0; g < cache.groups.size(); ++g) {
    const engine::CachedGroup& group = cache.groups[g];
    const double share =
        static_cast<double>(group.bytes_held + group.bytes_spilled) / static_cast<double>(most);
    const std::string spilled = group.bytes_spilled > 0
                                    ? fmt::format(", {} spilled", format_bytes(group.bytes_spilled))
                                    : std::string();
    out += fmt::format("{}\n  {}  {} used, {} held in memory{}\n",
                       group_title(geometry.groups()[g]), bar(share, kBarCells),
                       format_bytes(group.bytes_used), format_bytes(group.bytes_held), spilled);
    const std::string cells = page_cells(group);
    for (size_t i = 0; i < cells.size(); i += kCellsPerLine) {
      out += fmt::format("  {:>7}  {}\n", format_count(static_cast<int64_t>(i) * kv::kPageTokens),
                         cells.substr(i, kCellsPerLine));
    }
  }
  return out;
}

std::string page_legend(const engine::SequenceCache& cache) {
  std::string seen;
  for (const engine::CachedGroup& group : cache.groups) seen += page_cells(group);
  constexpr std::array<std::pair<char, std::string_view>, 7> kMeanings = {{
      {'o', "open"},
      {'s', "sealed"},
      {'O', "open and shared"},
      {'S', "sealed and shared"},
      {'x', "spilled"},
      {'X', "spilled and shared"},
      {'.', "freed behind the window"},
  }};
  std::string out;
  for (const auto& [cell, meaning] : kMeanings) {
    if (seen.find(cell) == std::string::npos) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", cell, meaning);
  }
  if (out.empty()) return out;
  return fmt::format("each cell a page of {} tokens: {}\n", kv::kPageTokens, out);
}

}  // namespace quire::cli
