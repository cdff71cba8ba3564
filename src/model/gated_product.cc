#include "model/gated_product.h"

#include <algorithm>

#include "model/matmul_group.h"

namespace quire::model {
namespace {

// Rows that share one reading of the weights, and columns of each product that a thread takes at a
// time: together 258 KiB of results, which stay in the L2 cache.
constexpr int64_t kRows = 516;
constexpr int64_t kColumns = 64;

/// Columns [begin, end) of gate and up, for rows [first_row, first_row + num_rows).
struct Part {
  int64_t begin;
  int64_t end;
  int64_t first_row;
  int64_t num_rows;
};

void multiply_columns(const kernels::KernelSet& kernels, const GatedProduct& p, const Part& part,
                      const kernels::WeightMatrix& weights, float* out) {
  const kernels::MatmulArgs args{.weights = &weights,
                                 .x = p.x.view(part.first_row, part.num_rows),
                                 .policy = p.policy,
                                 .out = out,
                                 .out_stride = kColumns,
                                 .first_row = part.begin};
  kernels.matmul(args, part.begin / kernels::kPanelRows,
                 (part.end + kernels::kPanelRows - 1) / kernels::kPanelRows);
}

void multiply_part(const kernels::KernelSet& kernels, const GatedProduct& p, const Part& part) {
  alignas(64) float gate[kRows * kColumns];
  alignas(64) float up[kRows * kColumns];
  multiply_columns(kernels, p, part, p.weights.gate.matrix, gate);
  multiply_columns(kernels, p, part, p.weights.up.matrix, up);
  const auto activate =
      p.activation == FfnActivation::kSwiGlu ? kernels.swiglu : kernels.geglu_tanh;
  for (int64_t row = 0; row < part.num_rows; ++row) {
    float* own = gate + row * kColumns;
    activate(own, up + row * kColumns, own, part.end - part.begin);
  }
  kernels.quantize_columns_per_32(gate, kColumns, p.activated, part.first_row,
                                  part.first_row + part.num_rows, part.begin, part.end);
}

}  // namespace

bool suits_gated_product(const FfnWeights& weights, FfnActivation activation,
                         kernels::ActivationPolicy policy, int64_t rows) {
  const QuantizedForms forms = forms_for({&weights.down.matrix}, policy);
  return rows >= kernels::kManyTokens && is_gated(activation) && weights.gate.bias.empty() &&
         weights.up.bias.empty() && forms.per_32 && !forms.per_256;
}

void multiply_gated(const kernels::KernelSet& kernels, ThreadPool& threads, const GatedProduct& p) {
  const int64_t ffn = p.weights.up.matrix.rows();
  const auto chunks = static_cast<int32_t>((ffn + kColumns - 1) / kColumns);
  for (int64_t first = 0; first < p.num_rows; first += kRows) {
    const int64_t rows = std::min(kRows, p.num_rows - first);
    threads.parallel(chunks, [&](int32_t chunk) {
      const kernels::ScopedFloatEnvironment environment;
      const int64_t begin = chunk * kColumns;
      multiply_part(kernels, p, {begin, std::min(begin + kColumns, ffn), first, rows});
    });
  }
}

}  // namespace quire::model
