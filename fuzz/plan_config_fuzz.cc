// Fuzzes the planner's reading of configurations: any JSON gives a plan that makes sense, or one
// sentence.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "formats/json.h"
#include "plan/cache_plan.h"
#include "plan/families.h"
#include "plan/memory_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const auto json =
      formats::Json::parse({reinterpret_cast<const char*>(data), size}, "fuzzed input");
  if (!json.ok()) return 0;
  const auto shape = plan::shape_of_config(*json, "config.json");
  if (!shape.ok()) {
    QUIRE_CHECK(!shape.error().message.empty(), "a refusal says why");
    return 0;
  }
  if (!plan::check_cache_size(*shape).ok()) return 0;
  plan::PlanRequest request{.context = 4096, .sequences = 50, .memory = int64_t{24} << 30};
  const plan::MemoryPlan planned = plan::plan_memory(*shape, request);
  for (const int64_t bytes : {planned.weights, planned.kv_used, planned.page_rounding,
                              planned.prefill, planned.activation, planned.logits}) {
    QUIRE_CHECK_LE(0, bytes);
    QUIRE_CHECK_LE(bytes, planned.total);
  }
  request.sequences = plan::max_sequences(*shape, request);
  QUIRE_CHECK_LE(0, request.sequences);
  if (request.sequences > 0) {
    QUIRE_CHECK_LE(plan::plan_memory(*shape, request).total, request.memory);
  }
  return 0;
}
