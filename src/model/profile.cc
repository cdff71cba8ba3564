#include "model/profile.h"

#include "base/check.h"

namespace quire::model {

std::string_view name(Step step) {
  switch (step) {
    case Step::kEmbed:
      return "embed";
    case Step::kNorm:
      return "norm";
    case Step::kQueryKeyValue:
      return "qkv";
    case Step::kStoreKv:
      return "store kv";
    case Step::kSeal:
      return "seal";
    case Step::kReadBack:
      return "read back";
    case Step::kAttend:
      return "attend";
    case Step::kAttentionOut:
      return "attention out";
    case Step::kGateUp:
      return "gate and up";
    case Step::kActivate:
      return "activate";
    case Step::kDown:
      return "down";
    case Step::kExperts:
      return "experts";
    case Step::kHead:
      return "head";
  }
  QUIRE_CHECK(false, "a step outside its enumeration");
}

void Profile::add(Step step, int32_t group, const StepCost& cost) {
  StepCost& sum = costs_[{step, group}];
  sum.calls += cost.calls;
  sum.seconds += cost.seconds;
  sum.bytes += cost.bytes;
  sum.operations += cost.operations;
}

std::vector<Profile::Row> Profile::rows() const {
  std::vector<Row> rows;
  for (const auto& [key, cost] : costs_) rows.push_back({key.first, key.second, cost});
  return rows;
}

double Profile::seconds() const {
  double sum = 0.0;
  for (const auto& entry : costs_) sum += entry.second.seconds;
  return sum;
}

}  // namespace quire::model
