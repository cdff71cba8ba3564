// rope_stretch.h: running a model beyond the length it was trained for.
//
// What the user asks for with --rope-scaling: the rotation of the layers that see the whole context
// is stretched, and the context with it. Answers get worse the further it goes, so whoever uses it
// says so. Plain data and pure functions.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/config.h"

namespace quire::model {

struct RopeStretch {
  RopeScaling scaling = RopeScaling::kYarn;  // or kLinear
  double factor = 1.0;
};

/// "yarn:4", "linear:2.5".
Result<RopeStretch> parse_rope_stretch(std::string_view text);
std::string name(const RopeStretch& stretch);

/// The model with a context `factor` times as long. Refuses models that do not rotate and those
/// whose rotation is scaled already.
Result<ModelConfig> stretched(ModelConfig config, const RopeStretch& stretch);

}  // namespace quire::model
