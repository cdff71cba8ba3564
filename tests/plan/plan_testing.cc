#include "plan/plan_testing.h"

#include "base/file_system.h"
#include "plan/families.h"

namespace quire::plan {

using formats::Json;

Json published_config(std::string_view name) {
  const std::string path = QUIRE_TEST_DATA "/plan/" + std::string(name) + ".json";
  const std::string text = real_file_system().read(path, 1 << 20).value();
  return Json::parse(text, path).value();
}

ModelShape published_shape(std::string_view name) {
  return shape_of_config(published_config(name), name).value();
}

Result<ModelShape> shape_of(std::string_view json) {
  return shape_of_config(Json::parse(json, "a test").value(), "config.json");
}

PlanRequest request_of(int64_t context) {
  return {.context = context, .memory = int64_t{1} << 50};
}

}  // namespace quire::plan
