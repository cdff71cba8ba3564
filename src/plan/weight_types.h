// weight_types.h: how heavy weights are in each type, and which type each matrix gets in a mix.
//
// Names are those of GGUF ("q8_0", "q4_k_m") and of Hugging Face quantizers ("fp8", "awq"). A mix
// such as q4_k_m stores some matrices finer than others, by rules that depend on what a matrix is
// for and on its layer; rows that are no whole number of blocks fall back to a type of smaller
// blocks. Pure functions. Sources: ggml's type table; the published sizes of llama.cpp's mixes,
// which the tests meet to a percent.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/element_type.h"
#include "plan/model_shape.h"

namespace quire::plan {

/// How numbers are stored, whether the engine reads them or not.
struct StoredType {
  std::string_view name;
  int32_t block_elements = 1;
  int32_t block_bytes = 1;  // in a file
};

/// A way to store a whole model.
struct WeightMix {
  std::string_view name;
  std::string_view base;  // the StoredType of most matrices
  /// Mean KL divergence to 16 bits, measured on Llama 3 8B by llama.cpp's authors
  /// (tools/perplexity/README.md); negative: nobody has published it.
  double kl = -1.0;
};

/// All that are known, finest first.
std::span<const WeightMix> weight_mixes();
/// By name, in any case; nullptr if unknown.
const WeightMix* find_weight_mix(std::string_view name);
/// Whether the engine computes on weights of that mix.
bool runs(const WeightMix& mix);

struct WeightBytes {
  int64_t file = 0;
  int64_t loaded = 0;  // as the engine keeps them: panels of 16 rows, small ones in f32
};

/// Requires that the shape has weights.
WeightBytes mixed_bytes(const ModelShape& shape, const WeightMix& mix);

/// Matrices in the type that the configuration names (ModelShape::float_type).
WeightBytes float_bytes(const ModelShape& shape);

/// One matrix of that type, by the engine's layout where it reads the type.
WeightBytes matrix_bytes(ElementType type, int64_t rows, int64_t cols);

}  // namespace quire::plan
