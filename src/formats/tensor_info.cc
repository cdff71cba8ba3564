#include "formats/tensor_info.h"

#include <fmt/format.h>

#include "formats/printable.h"

namespace quire::formats {

int64_t num_elements(const TensorInfo& tensor) {
  int64_t product = 1;
  for (const int64_t dim : tensor.shape) product *= dim;
  return product;
}

Result<ElementType> readable_type(const TensorInfo& tensor) {
  if (tensor.type) return *tensor.type;
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("tensor {} is stored as {}, which Quire does not read; take a file in F32, "
                  "F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K or Q6_K",
                  printable(tensor.name), tensor.type_name)};
}

}  // namespace quire::formats
