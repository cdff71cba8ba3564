// file_weights.h: weights as a GGUF file stores them, for tests: random ones, and an independent
// reading.
//
// The reading looks up one element at a time, straight from the format's definition, and shares no
// code with the kernels. Scales are kept small and finite, so that products stay ordinary floats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/element_type.h"
#include "kernels/weight_matrix.h"

namespace quire::kernels {

inline constexpr ElementType kAllTypes[] = {
    ElementType::F32,  ElementType::F16,  ElementType::BF16, ElementType::Q8_0,   ElementType::Q4_0,
    ElementType::Q4_1, ElementType::Q5_0, ElementType::Q5_1, ElementType::IQ4_NL, ElementType::Q2_K,
    ElementType::Q3_K, ElementType::Q4_K, ElementType::Q5_K, ElementType::Q6_K};

/// The numbers behind one element of a quantized row.
struct FileElement {
  int code = 0;  // as multiplied: Q6_K's without its -32, IQ4_NL's looked up
  int zero = 0;  // what the format subtracts from the code
  float d = 0;
  float m = 0;    // m or dmin
  int scale = 1;  // of its sub-block
  int min = 0;
};

class FileWeights {
 public:
  /// Random contents.
  FileWeights(ElementType type, int64_t rows, int64_t cols, uint32_t seed);
  /// Given contents.
  FileWeights(ElementType type, int64_t rows, int64_t cols, std::vector<std::byte> stored);

  ElementType type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  std::vector<std::byte>& stored() { return stored_; }

  /// Requires a quantized type.
  FileElement element(int64_t row, int64_t col) const;
  /// What the element stands for, rounded as the format defines.
  float value(int64_t row, int64_t col) const;

  WeightMatrix pack() const;
  WeightMatrix::Source source() const;

 private:
  const uint8_t* block(int64_t row, int64_t col) const;

  ElementType type_;
  int64_t rows_;
  int64_t cols_;
  std::vector<std::byte> stored_;
};

/// The type's block, at least one column.
int64_t block_columns(ElementType type);

/// The name for a parameterized test.
std::string test_name(ElementType type);

}  // namespace quire::kernels
