// file_block.h: one quantized block as a GGUF file stores it, taken apart.
//
// Codes are widened to a byte each, in column order, unshifted; sub-block scales and minimums are
// unpacked from their 4 or 6 bits, those of Q3_K with its 32 taken off. Thread rule: pure
// functions. Block layouts: GGUF specification; ggml-quants.c of llama.cpp.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace quire::kernels {

struct FileBlock {
  uint8_t codes[256];  // Q8_0: the bits of an int8
  uint8_t scales[16];  // K-quants, one a sub-block; Q3_K and Q6_K: the bits of an int8
  uint8_t mins[16];    // Q2_K, Q4_K and Q5_K
  uint16_t d;          // f16
  uint16_t m;          // f16: m of Q4_1 and Q5_1, dmin of K-quants
};

/// Reads the block at `stored`, which holds info(type).block_bytes. Requires a quantized type.
/// Fields that the type does not have are left as they are.
void read_file_block(ElementType type, const std::byte* stored, FileBlock& block);

}  // namespace quire::kernels
