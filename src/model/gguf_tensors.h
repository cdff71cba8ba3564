// gguf_tensors.h: which tensors of a Hugging Face folder a GGUF file holds.
//
// By the description's names for both; q and k in GGUF's order of rows, experts joined, norms with
// their 1 added. A sentence names a tensor that is missing, or for which GGUF has no place. The
// result refers to the folder's tensors. Pure functions.
#pragma once
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "model/gguf_plan.h"

namespace quire::model {

Result<std::vector<GgufTensor>> gguf_tensors(const formats::ModelFiles& folder,
                                             const DescribedModel& model);

}  // namespace quire::model
