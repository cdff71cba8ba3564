#include "cli/profile_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::cli {
namespace {

using formats::Json;
using model::Profile;
using Row = Profile::Row;

std::vector<Row> longest_first(const Profile& profile) {
  std::vector<Row> rows = profile.rows();
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [](const Row& row) { return row.cost.seconds; });
  return rows;
}

/// "global", "window 512", or "" outside the layers.
std::string group_name(const kv::KvGeometry& geometry, int32_t group) {
  if (group == Profile::kNoGroup) return "";
  const kv::LayerGroup& layers = geometry.groups()[static_cast<size_t>(group)];
  if (!layers.is_window()) return fmt::format("global x {}", layers.num_layers());
  return fmt::format("window {} x {}", layers.window_tokens, layers.num_layers());
}

double share_of(const Row& row, double total) {
  return total > 0.0 ? row.cost.seconds / total : 0.0;
}

double rate(double amount, double seconds) {
  return seconds > 0.0 ? amount / seconds / 1e9 : 0.0;
}

/// A rate, or nothing where none was counted.
std::string rate_text(double amount, double seconds) {
  return amount > 0.0 ? fmt::format("{:.1f}", rate(amount, seconds)) : "";
}

}  // namespace

std::string profile_text(const Profile& profile, const kv::KvGeometry& geometry) {
  const double total = profile.seconds();
  std::string out = fmt::format("{:<14} {:<18} {:>8} {:>10} {:>7} {:>8} {:>9}\n", "step", "layers",
                                "calls", "ms", "share", "GB/s", "GOP/s");
  for (const Row& row : longest_first(profile)) {
    const model::StepCost& cost = row.cost;
    out += fmt::format("{:<14} {:<18} {:>8} {:>10.2f} {:>6.1f}% {:>8} {:>9}\n", name(row.step),
                       group_name(geometry, row.group), cost.calls, cost.seconds * 1e3,
                       100.0 * share_of(row, total), rate_text(cost.bytes, cost.seconds),
                       rate_text(cost.operations, cost.seconds));
  }
  return out;
}

Json profile_json(const Profile& profile, const kv::KvGeometry& geometry) {
  const double total = profile.seconds();
  Json rows(Json::Array{});
  for (const Row& row : longest_first(profile)) {
    const model::StepCost& cost = row.cost;
    Json json;
    json.set("step", name(row.step));
    json.set("group", group_name(geometry, row.group));
    json.set("calls", cost.calls);
    json.set("ms", cost.seconds * 1e3);
    json.set("share", share_of(row, total));
    json.set("gb_s", rate(cost.bytes, cost.seconds));
    json.set("gop_s", rate(cost.operations, cost.seconds));
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace quire::cli
