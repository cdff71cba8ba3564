// float_tensor.h: a small tensor of plain floats, read into memory.
//
// For norms and rotation factors; matrices go through kernels::WeightMatrix. Pure function.
#pragma once
#include <vector>

#include "base/result.h"
#include "formats/tensor_info.h"

namespace quire::model {

/// All numbers of an f32, f16 or bf16 tensor, exactly. kUnsupported names any other type.
Result<std::vector<float>> read_floats(const formats::TensorInfo& tensor);

}  // namespace quire::model
