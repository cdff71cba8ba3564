// plan_testing.h: configurations and requests for the planner's tests.
//
// Plain functions; any failure to read ends the test process with the sentence.
#pragma once
#include <string>
#include <string_view>

#include "formats/json.h"
#include "plan/memory_plan.h"
#include "plan/model_shape.h"

namespace quire::plan {

/// tests/data/plan/NAME.json.
formats::Json published_config(std::string_view name);
ModelShape published_shape(std::string_view name);

/// The shape of a configuration spelled out in a test.
Result<ModelShape> shape_of(std::string_view json);

/// One sequence of `context` tokens, f16, with all the memory there is.
PlanRequest request_of(int64_t context);

}  // namespace quire::plan
