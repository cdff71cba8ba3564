// matmul_problem.h: a product to compute, and the plain loops that say what it must be.
//
// The plain loops read the file's elements one by one and follow the order of arithmetic that
// impl/matmul_int8.inl and impl/matmul_float.inl promise: what they give is the truth bit for bit.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/activations.h"
#include "kernels/file_weights.h"
#include "kernels/kernel_set.h"
#include "kernels/weight_matrix.h"

namespace quire::kernels {

class MatmulProblem {
 public:
  MatmulProblem(ElementType type, int64_t rows, int64_t cols, int64_t tokens, uint32_t seed);

  int64_t rows() const { return file_.rows(); }
  int64_t tokens() const { return tokens_; }
  int64_t num_panels() const { return packed_.num_panels(); }
  ElementType type() const { return file_.type(); }

  /// What `set` makes of the first `tokens` tokens and panels [begin, end). // [tokens, rows]
  std::vector<float> run(const KernelSet& set, ActivationPolicy policy, int64_t tokens);
  /// The same panel range by panel range, onto what `out` holds.
  void run_into(const KernelSet& set, ActivationPolicy policy, int64_t tokens, Store store,
                int64_t begin, int64_t end, std::vector<float>& out);

  /// The truth, bit for bit. // [tokens, rows]
  std::vector<float> expected(ActivationPolicy policy);
  /// The product of the dequantized weights and the unquantized activations in double. // [tokens,
  /// rows]
  std::vector<double> exact() const;
  /// Sum of |w| |x| for every output: what a rounding error is measured against. // [tokens, rows]
  std::vector<double> magnitude() const;

 private:
  float expected_int8_32(int64_t token, int64_t row);
  float expected_int8_256(int64_t token, int64_t row);
  float expected_f32(int64_t token, int64_t row);
  const float* x(int64_t token) { return activations_.f32() + token * file_.cols(); }

  FileWeights file_;
  WeightMatrix packed_;
  int64_t tokens_;
  Activations activations_;
};

/// Every set that this machine can run.
std::vector<const KernelSet*> available_kernels();

}  // namespace quire::kernels
