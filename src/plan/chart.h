// chart.h: memory against context as an SVG picture: a line for each codec, a line for the limit.
//
// Drawn by formats/line_chart.h. Pure function.
#pragma once
#include <string>

#include "plan/memory_plan.h"

namespace quire::plan {

/// From one token to the trained length, or to four times the request's context where that is not
/// known.
std::string memory_chart(const ModelShape& shape, const PlanRequest& request);

}  // namespace quire::plan
