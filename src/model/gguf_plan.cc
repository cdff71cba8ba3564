#include "model/gguf_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"

namespace quire::model {
namespace {

constexpr std::array<std::string_view, 3> kOfTheOldFile = {"general.alignment", "general.file_type",
                                                           "general.quantization_version"};

bool concerns_the_old_file(std::string_view key) {
  return key.starts_with("split.") || std::ranges::find(kOfTheOldFile, key) != kOfTheOldFile.end();
}

/// {arch}.expert_count, 0 if the file has none that can be read.
int64_t expert_count(const formats::GgufMetadata& metadata) {
  const auto name = metadata.get<std::string_view>("general.architecture");
  if (!name.ok() || !*name) return 0;
  const auto count = metadata.get<int64_t>(fmt::format("{}.expert_count", **name));
  return count.ok() ? count->value_or(0) : 0;
}

}  // namespace

Result<GgufPlan> plan_from_gguf(const formats::ModelFiles& files) {
  QUIRE_CHECK(files.gguf() != nullptr, "the files are GGUF");
  GgufPlan plan;
  for (const formats::GgufValue& value : files.gguf()->values()) {
    if (!concerns_the_old_file(value.key)) plan.writer.copy(value);
  }
  for (const formats::TensorInfo& tensor : files.tensors()) {
    plan.tensors.push_back(
        {.name = tensor.name, .shape = tensor.shape, .sources = {&tensor}, .values = {}});
  }
  plan.has_head = files.find("output.weight") != nullptr;
  plan.experts = expert_count(*files.gguf());
  return plan;
}

}  // namespace quire::model
