// dequantize.h: the numbers that packed weights stand for, exactly as their format defines them.
//
// value = d * (code - zero) - m, two roundings, with d and m of the sub-block; a format's +m is
// -(-m). One implementation for all instruction sets. Thread rule: pure functions. Definitions:
// ggml-quants.c of llama.cpp (dequantize_row_*).
#pragma once
#include <cstdint>

#include "kernels/weight_matrix.h"

namespace quire::kernels {

/// Row `row` of the matrix. // out: [cols]
void dequantize_row(const WeightMatrix& weights, int64_t row, float* out);

/// Columns [first_column, first_column + num_columns) of a panel; both multiples of the type's
/// block.
/// // out: [num_columns, 16 rows]
void dequantize_panel(const WeightMatrix& weights, int64_t panel, int64_t first_column,
                      int64_t num_columns, float* out);

}  // namespace quire::kernels
