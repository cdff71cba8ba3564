#include "cli/needle_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/pieces.h"

namespace quire::cli {
namespace {

using formats::Json;

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

/// How much was found of some trials.
struct Score {
  int64_t trials = 0;
  int64_t answered = 0;
  int64_t chosen = 0;
  void add(const NeedleTrial& trial) {
    ++trials;
    answered += trial.answered ? 1 : 0;
    chosen += trial.chosen ? 1 : 0;
  }
};

template <class Keep>
Score score_of(const NeedleRun& run, const Keep& keep) {
  Score score;
  for (const NeedleTrial& trial : run.trials) {
    if (keep(*trial.prompt)) score.add(trial);
  }
  return score;
}

Score score_of(const NeedleRun& run) {
  return score_of(run, [](const NeedlePrompt&) { return true; });
}

Score score_at(const NeedleRun& run, int64_t length) {
  return score_of(run, [length](const NeedlePrompt& prompt) { return prompt.length == length; });
}

/// Of guessing among the answers that a question is judged by.
double chance(const NeedleReport& report) {
  for (const NeedleResult& result : report.results) {
    if (!result.run.trials.empty()) {
      return 1.0 / static_cast<double>(result.run.trials.front().prompt->others.size() + 1);
    }
  }
  return 0.0;
}

Json cell_json(const NeedleCell& cell) {
  Json json;
  json.set("task", name(cell.task));
  json.set("length", cell.length);
  json.set("depth", cell.depth);
  json.set("trials", cell.trials);
  json.set("answered", share(cell.answered, cell.trials));
  json.set("chosen", share(cell.chosen, cell.trials));
  json.set("margin_mean", cell.margin_sum / static_cast<double>(cell.trials));
  return json;
}

Json trial_json(const NeedleTrial& trial) {
  Json json;
  json.set("task", name(trial.prompt->task));
  json.set("length", trial.prompt->length);
  json.set("depth", trial.prompt->depth);
  json.set("tokens", trial.tokens);
  json.set("answer", trial.prompt->answer);
  json.set("written", utf8_sanitized(trial.written));
  json.set("answered", trial.answered);
  json.set("chosen", trial.chosen);
  json.set("rank", trial.rank);
  json.set("margin", trial.margin);
  return json;
}

Json result_json(const NeedleReport& report, const NeedleResult& result) {
  const Score all = score_of(result.run);
  Json json;
  json.set("cache", result.cache);
  json.set("kv", result.kv);
  json.set("questions", all.trials);
  json.set("answered", share(all.answered, all.trials));
  json.set("chosen", share(all.chosen, all.trials));
  Json by_length(Json::Array{});
  for (const int64_t length : report.rules.lengths) {
    const Score score = score_at(result.run, length);
    Json entry;
    entry.set("length", length);
    entry.set("answered", share(score.answered, score.trials));
    entry.set("chosen", share(score.chosen, score.trials));
    by_length.push_back(std::move(entry));
  }
  json.set("by_length", std::move(by_length));
  Json cells(Json::Array{});
  for (const NeedleCell& cell : needle_cells(result.run)) cells.push_back(cell_json(cell));
  json.set("cells", std::move(cells));
  Json trials(Json::Array{});
  for (const NeedleTrial& trial : result.run.trials) trials.push_back(trial_json(trial));
  json.set("trials", std::move(trials));
  json.set("prefilled_tokens", result.run.prefilled_tokens);
  json.set("reused_tokens", result.run.reused_tokens);
  return json;
}

int percent(int64_t part, int64_t whole) {
  return static_cast<int>(std::lround(100.0 * share(part, whole)));
}

/// "100" where each question has one trial is a mark; else two percentages.
std::string cell_text(const NeedleCell& cell) {
  if (cell.trials == 1) return cell.answered > 0 ? "■" : cell.chosen > 0 ? "□" : "·";
  return fmt::format("{}/{}", percent(cell.answered, cell.trials),
                     percent(cell.chosen, cell.trials));
}

std::string padded(const std::string& text, size_t width) {
  const size_t length = utf8_length(text);
  return std::string(width > length ? width - length : 0, ' ') + text;
}

/// Rows: tasks and depths; columns: lengths.
std::string map_of(const NeedleReport& report, const NeedleResult& result) {
  std::map<std::tuple<NeedleTask, double>, std::map<int64_t, std::string>> rows;
  for (const NeedleCell& cell : needle_cells(result.run)) {
    rows[{cell.task, cell.depth}][cell.length] = cell_text(cell);
  }
  std::string out = std::string(18, ' ');
  for (const int64_t length : report.rules.lengths) out += padded(format_count(length), 9);
  out += '\n';
  std::optional<NeedleTask> last;
  for (auto& [key, cells] : rows) {
    const auto& [task, depth] = key;
    out += fmt::format("{:<12}{:>4.0f} %", last == task ? "" : name(task), 100.0 * depth);
    last = task;
    for (const int64_t length : report.rules.lengths) out += padded(cells[length], 9);
    out += '\n';
  }
  return out;
}

std::string comparison(const NeedleReport& report) {
  std::string out = fmt::format("{:<22}{:>8}", "cache", "kv");
  for (const int64_t length : report.rules.lengths) out += padded(format_count(length), 12);
  out += "         all\n";
  for (const NeedleResult& result : report.results) {
    out += fmt::format("{:<22}{:>8}", result.cache, result.kv);
    const auto add = [&out](const Score& score) {
      out += padded(fmt::format("{}/{} %", percent(score.answered, score.trials),
                                percent(score.chosen, score.trials)),
                    12);
    };
    for (const int64_t length : report.rules.lengths) add(score_at(result.run, length));
    add(score_of(result.run));
    out += '\n';
  }
  return out;
}

}  // namespace

std::vector<NeedleCell> needle_cells(const NeedleRun& run) {
  std::map<std::tuple<NeedleTask, int64_t, double>, NeedleCell> cells;
  for (const NeedleTrial& trial : run.trials) {
    const NeedlePrompt& prompt = *trial.prompt;
    NeedleCell& cell = cells[{prompt.task, prompt.length, prompt.depth}];
    cell.task = prompt.task;
    cell.length = prompt.length;
    cell.depth = prompt.depth;
    ++cell.trials;
    cell.answered += trial.answered ? 1 : 0;
    cell.chosen += trial.chosen ? 1 : 0;
    cell.margin_sum += trial.margin;
  }
  std::vector<NeedleCell> out;
  for (const auto& [key, cell] : cells) out.push_back(cell);
  return out;
}

Json to_json(const NeedleReport& report) {
  Json tasks(Json::Array{}), lengths(Json::Array{}), depths(Json::Array{}), results(Json::Array{});
  for (const NeedleTask task : report.rules.tasks) tasks.push_back(name(task));
  for (const int64_t length : report.rules.lengths) lengths.push_back(length);
  for (const double depth : report.rules.depths) depths.push_back(depth);
  for (const NeedleResult& result : report.results) results.push_back(result_json(report, result));
  Json json;
  json.set("model", utf8_sanitized(report.model));
  json.set("window", report.window);
  if (!report.rope_scaling.empty()) {
    json.set("rope_scaling", report.rope_scaling);
    json.set("risk", "stretched beyond the trained length");
  }
  json.set("tasks", std::move(tasks));
  json.set("lengths", std::move(lengths));
  json.set("depths", std::move(depths));
  json.set("distractors", report.rules.distractors);
  json.set("trials_each", report.rules.trials);
  json.set("seed", static_cast<int64_t>(report.rules.seed));
  json.set("chance", chance(report));
  json.set("interrupted", report.interrupted);
  json.set("results", std::move(results));
  return json;
}

std::string for_people(const NeedleReport& report) {
  std::string out;
  if (!report.rope_scaling.empty()) {
    out += fmt::format("--rope-scaling {}: stretched beyond the trained length\n\n",
                       report.rope_scaling);
  }
  for (const NeedleResult& result : report.results) {
    const Score all = score_of(result.run);
    out += fmt::format("{}, {}: {} of {} answered, {} told from wrong answers\n", result.cache,
                       result.kv, all.answered, all.trials, all.chosen);
    out += map_of(report, result) + '\n';
  }
  const bool marks = report.rules.trials == 1;
  out += marks ? "■ answered   □ not written, but likelier than each wrong answer   · neither\n"
               : "answered/told from wrong answers, in percent\n";
  if (report.results.size() > 1) {
    out += "\nanswered/told from wrong answers by length\n" + comparison(report);
  }
  out += fmt::format("guessing tells {:.0f} % from wrong answers; the window is {} tokens\n",
                     100.0 * chance(report), format_count(report.window));
  return out;
}

}  // namespace quire::cli
