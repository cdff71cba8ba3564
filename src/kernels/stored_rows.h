// stored_rows.h: rows of weights between floats and the blocks that a GGUF file stores.
//
// For converting files; what computes reads panels (weight_matrix.h). Decoding gives each number
// exactly as its format defines it. Encoding gives the bytes that ggml's reference quantizers give:
// half away from zero, with the scale before it is rounded to f16. Pure functions; any thread.
// Definitions: ggml-quants.c of llama.cpp, dequantize_row_* and quantize_row_*_ref.
#pragma once
#include <cstddef>
#include <span>

#include "base/element_type.h"

namespace quire::kernels {

/// Requires whole blocks, and `stored` to hold exactly them.
void decode_row(ElementType type, std::span<const std::byte> stored, std::span<float> out);

/// Whether encode_row() knows the type: F32, F16, BF16, Q8_0, Q4_0, Q4_1.
bool can_encode(ElementType type);

/// What keeps floats from being encoded.
enum class EncodeProblem : unsigned char {
  kNone,
  kNotFinite,  // a number is infinite or not a number
  kTooLarge,   // a number, or the scale of a block, is beyond f16
};

/// Requires a type that can_encode(), whole blocks, and `out` to have room for exactly them. `out`
/// is worthless unless the answer is kNone.
EncodeProblem encode_row(ElementType type, std::span<const float> row, std::span<std::byte> out);

}  // namespace quire::kernels
