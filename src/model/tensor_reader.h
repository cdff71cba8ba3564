// tensor_reader.h: tensors of a model's files as matrices and vectors, read one by one.
//
// Checks shape and type before anything is read, remembers which tensors were read, and lets a
// tensor's mapped pages go when it is done. One sentence names a tensor that is missing or wrong.
// Packs on all threads of the pool. Refers to files and pool, which must outlive it. Not
// thread-safe.
#pragma once
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/model_files.h"
#include "kernels/weight_matrix.h"
#include "model/weights.h"

namespace quire::model {

/// Which rows of a stored tensor make a matrix: row r of it is stored row source(r).
struct RowMap {
  int64_t rows = 0;
  int64_t stored_rows = 0;
  std::function<int64_t(int64_t)> source = nullptr;  // nullptr: the same rows
};

/// All rows as they stand.
inline RowMap all_rows(int64_t rows) {
  return {.rows = rows, .stored_rows = rows, .source = nullptr};
}

class TensorReader {
 public:
  TensorReader(const formats::ModelFiles& files, const LoadProgress& progress, ThreadPool& threads)
      : files_(files), progress_(progress), threads_(threads) {}

  bool has(const std::string& name) const { return files_.find(name) != nullptr; }
  bool was_read(const std::string& name) const { return used_.contains(name); }

  /// The tensor, if its shape is one of `shapes`.
  Result<const formats::TensorInfo*> find(const std::string& name,
                                          const std::vector<std::vector<int64_t>>& shapes);

  /// Rows of a tensor of shape [map.stored_rows, cols].
  Result<kernels::WeightMatrix> matrix(const std::string& name, const RowMap& map, int64_t cols);
  /// The same of a tensor stored as [cols, map.stored_rows]; floats only.
  Result<kernels::WeightMatrix> transposed(const std::string& name, const RowMap& map,
                                           int64_t cols);
  /// A vector of `count` numbers as a matrix of one row, also where it is stored as one.
  Result<kernels::WeightMatrix> one_row(const std::string& name, int64_t count);
  /// Part `index` of a tensor of shape [parts, rows, cols].
  Result<kernels::WeightMatrix> part(const std::string& name, int64_t index, int64_t parts,
                                     int64_t rows, int64_t cols);
  /// Numbers `map` of a vector of map.stored_rows floats.
  Result<std::vector<float>> vector(const std::string& name, const RowMap& map);

  /// Says that nothing more of the tensor will be read. kInterrupted if the caller wants to stop.
  Result<void> done(const std::string& name);

 private:
  Result<kernels::WeightMatrix> pack(const formats::TensorInfo& tensor,
                                     std::span<const std::byte> stored, const RowMap& map,
                                     int64_t cols);

  const formats::ModelFiles& files_;
  const LoadProgress& progress_;
  ThreadPool& threads_;
  std::set<std::string> used_;
  uint64_t bytes_done_ = 0;
};

}  // namespace quire::model
