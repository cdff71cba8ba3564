// plan_report.h: a capacity plan as JSON and as a table for people.
//
// Pure functions.
#pragma once
#include <string>

#include "formats/json.h"
#include "plan/memory_plan.h"

namespace quire::cli {

struct PlanReport {
  const plan::ModelShape& shape;
  const plan::PlanRequest& request;
  plan::MemoryPlan plan;
  std::vector<int64_t> contexts;  // further ones that were asked for, ascending
  bool memory_given = false;      // --memory; else what this machine has free
  std::vector<std::string> notes;
};

formats::Json plan_json(const PlanReport& report);
std::string plan_text(const PlanReport& report);

}  // namespace quire::cli
