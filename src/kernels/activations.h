// activations.h: rows of activations in the forms that matrix products take.
//
// Weights of 32-element blocks meet int8 activations quantized per 32 (scale d and d*sum(q), f32);
// K-quants meet int8 per 256 with int16 sums of 16; floats meet f32. Each row is quantized by
// itself, round half to even, so that a token's numbers never depend on its neighbours in the
// batch. Not thread-safe, but different rows may be filled from different threads.
#pragma once
#include <cstdint>

#include "base/element_type.h"
#include "base/huge_buffer.h"
#include "base/result.h"

namespace quire::kernels {

/// How quantized weights meet activations.
enum class ActivationPolicy : uint8_t {
  kInt8,  // int8 activations: fast
  kF32,   // dequantized weights, f32 activations: slow, for checks against oracles
};

struct ActivationBlock {
  float scale;    // d = max|x| / 127
  float sum;      // d * sum(q)
  int32_t total;  // sum(q)
};

/// The forms of one set of rows; a null pointer means that form was not made.
struct ActivationView {
  int64_t num_rows = 0;
  int64_t cols = 0;
  const float* f32 = nullptr;                 // [num_rows, cols]
  const int8_t* q32 = nullptr;                // [num_rows, cols]
  const ActivationBlock* blocks32 = nullptr;  // [num_rows, cols / 32]
  const int8_t* q256 = nullptr;               // [num_rows, cols]
  const float* scales256 = nullptr;           // [num_rows, cols / 256]
  const int16_t* sums16 = nullptr;            // [num_rows, cols / 16]: sum of q256 per 16
};

/// Which forms a product with weights of `type` needs.
enum class ActivationForm : uint8_t { kF32, kInt8Per32, kInt8Per256 };
ActivationForm activation_form(ElementType type, ActivationPolicy policy);

/// Owns the forms for up to max_rows rows.
class Activations {
 public:
  Activations() = default;
  static Result<Activations> allocate(int64_t max_rows, int64_t cols);

  // Out of line, because per-ISA files call them (simd/README.md).
  float* f32();                 // [max_rows, cols]
  int8_t* q32();                // [max_rows, cols]; null unless cols is a multiple of 32
  ActivationBlock* blocks32();  // [max_rows, cols / 32]
  int8_t* q256();               // [max_rows, cols]; null unless cols is a multiple of 256
  float* scales256();           // [max_rows, cols / 256]
  int16_t* sums16();            // [max_rows, cols / 16]
  int64_t cols() const;
  int64_t bytes() const;

  ActivationView view(int64_t num_rows) { return view(0, num_rows); }
  /// Rows [first_row, first_row + num_rows).
  ActivationView view(int64_t first_row, int64_t num_rows);

 private:
  int64_t cols_ = 0;
  HugeBuffer f32_, q32_, blocks32_, q256_, scales256_, sums16_;
};

}  // namespace quire::kernels
