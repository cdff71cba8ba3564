#include "model/tensor_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "model/float_tensor.h"

namespace quire::model {

using formats::TensorInfo;
using kernels::WeightMatrix;

namespace {

/// [rows, cols] from [cols, rows] of elements of `size` bytes.
std::vector<std::byte> transpose(std::span<const std::byte> stored, int64_t rows, int64_t cols,
                                 size_t size) {
  std::vector<std::byte> out(stored.size());
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out.data() + static_cast<size_t>(r * cols + c) * size,
                  stored.data() + static_cast<size_t>(c * rows + r) * size, size);
    }
  }
  return out;
}

}  // namespace

Result<WeightMatrix> TensorReader::pack(const TensorInfo& tensor, std::span<const std::byte> stored,
                                        const RowMap& map, int64_t cols) {
  QUIRE_TRY(const ElementType type, formats::readable_type(tensor));
  if (cols % info(type).block_elements != 0) {
    return Error{ErrorCode::kBadFile, fmt::format("tensor {}: rows of {} are no whole {} blocks",
                                                  tensor.name, cols, info(type).name)};
  }
  return WeightMatrix::pack({.type = type,
                             .rows = map.rows,
                             .cols = cols,
                             .stored = stored,
                             .source_row = map.source,
                             .stored_rows = map.stored_rows,
                             .threads = &threads_});
}

Result<const TensorInfo*> TensorReader::find(const std::string& name,
                                             const std::vector<std::vector<int64_t>>& shapes) {
  const TensorInfo* tensor = files_.find(name);
  if (tensor == nullptr) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("tensor {} is missing from {}", name, files_.path())};
  }
  if (std::ranges::count(shapes, tensor->shape) == 0) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("tensor {} has shape [{}], but the model's numbers ask for [{}]", name,
                             fmt::join(tensor->shape, ", "), fmt::join(shapes.front(), ", "))};
  }
  used_.insert(name);
  return tensor;
}

Result<WeightMatrix> TensorReader::matrix(const std::string& name, const RowMap& map,
                                          int64_t cols) {
  QUIRE_TRY(const TensorInfo* tensor, find(name, {{map.stored_rows, cols}}));
  return pack(*tensor, tensor->bytes, map, cols);
}

Result<WeightMatrix> TensorReader::transposed(const std::string& name, const RowMap& map,
                                              int64_t cols) {
  QUIRE_TRY(const TensorInfo* tensor, find(name, {{cols, map.stored_rows}}));
  QUIRE_TRY(const ElementType type, formats::readable_type(*tensor));
  if (is_quantized(type)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("tensor {} is stored transposed as {}, but must be f32, f16 or bf16",
                             name, tensor->type_name)};
  }
  const auto size = static_cast<size_t>(info(type).block_bytes);
  return pack(*tensor, transpose(tensor->bytes, map.stored_rows, cols, size), map, cols);
}

Result<WeightMatrix> TensorReader::one_row(const std::string& name, int64_t count) {
  QUIRE_TRY(const TensorInfo* tensor, find(name, {{count}, {1, count}}));
  return pack(*tensor, tensor->bytes, all_rows(1), count);
}

Result<WeightMatrix> TensorReader::part(const std::string& name, int64_t index, int64_t parts,
                                        int64_t rows, int64_t cols) {
  QUIRE_TRY(const TensorInfo* tensor, find(name, {{parts, rows, cols}}));
  const size_t bytes = tensor->bytes.size() / static_cast<size_t>(parts);
  return pack(*tensor, tensor->bytes.subspan(static_cast<size_t>(index) * bytes, bytes),
              all_rows(rows), cols);
}

Result<std::vector<float>> TensorReader::vector(const std::string& name, const RowMap& map) {
  QUIRE_TRY(const TensorInfo* tensor, find(name, {{map.stored_rows}}));
  QUIRE_TRY(std::vector<float> stored, read_floats(*tensor));
  if (map.source == nullptr) return stored;
  std::vector<float> numbers;
  for (int64_t i = 0; i < map.rows; ++i) {
    numbers.push_back(stored[static_cast<size_t>(map.source(i))]);
  }
  return numbers;
}

Result<void> TensorReader::done(const std::string& name) {
  const TensorInfo* tensor = files_.find(name);
  if (tensor == nullptr) return {};
  files_.release(*tensor);
  bytes_done_ += tensor->num_bytes;
  const double share = static_cast<double>(bytes_done_) / static_cast<double>(files_.total_bytes());
  if (progress_ && !progress_(share)) {
    return Error{ErrorCode::kInterrupted, "loading was interrupted"};
  }
  return {};
}

}  // namespace quire::model
