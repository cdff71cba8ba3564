// needle_report.h: what `needles` found, for people, programs and as a picture.
//
// Pure functions.
#pragma once
#include <string>
#include <vector>

#include "cli/needle_trials.h"
#include "formats/json.h"

namespace quire::cli {

/// One way of keeping keys and values, and what was found with it.
struct NeedleResult {
  std::string cache;  // "dynamic"
  std::string kv;     // "f16"
  NeedleRun run;
};

struct NeedleReport {
  std::string model;
  int64_t window = 0;
  std::string rope_scaling;  // "" for none
  NeedleRules rules;
  std::vector<NeedleResult> results;
  bool interrupted = false;
};

/// Trials of one task, length and depth.
struct NeedleCell {
  NeedleTask task = NeedleTask::kSingle;
  int64_t length = 0;
  double depth = 0.0;
  int64_t trials = 0;
  int64_t answered = 0;
  int64_t chosen = 0;
  double margin_sum = 0.0;
};

/// By task, length and depth, ascending.
std::vector<NeedleCell> needle_cells(const NeedleRun& run);

/// No time is part of it: the same questions give the same document.
formats::Json to_json(const NeedleReport& report);
std::string for_people(const NeedleReport& report);
/// A map for each task and way of keeping keys and values.
std::string draw_svg(const NeedleReport& report);

}  // namespace quire::cli
