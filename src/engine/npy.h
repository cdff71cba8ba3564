// npy.h: matrices of float32 in NumPy's file format, written and read row by row.
//
// Only what logits need: '<f4', C order, two dimensions. A file that is read was checked first:
// magic, version, header, and that its size is what the shape says. Format: NumPy's
// numpy/lib/format.py, versions 1 and 2. Use from one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"

namespace quire::engine {

/// The bytes before the numbers of a [rows, cols] matrix.
std::string npy_header(int64_t rows, int64_t cols);

class NpyMatrix {
 public:
  /// Maps `path`. kBadFile, in a sentence, if it is anything but a float32 matrix.
  static Result<NpyMatrix> open(FileSystem& files, const std::string& path);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  /// Copies one row: the numbers in the file need not be aligned. // out: [cols]
  /// Requires 0 <= row < rows().
  void read_row(int64_t row, std::span<float> out) const;

 private:
  NpyMatrix() = default;
  std::unique_ptr<MappedFile> file_;
  size_t data_offset_ = 0;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

}  // namespace quire::engine
