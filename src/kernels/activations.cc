#include "kernels/activations.h"

#include "base/check.h"

namespace quire::kernels {

ActivationForm activation_form(ElementType type, ActivationPolicy policy) {
  if (!is_quantized(type) || policy == ActivationPolicy::kF32) return ActivationForm::kF32;
  return is_k_quant(type) ? ActivationForm::kInt8Per256 : ActivationForm::kInt8Per32;
}

Result<Activations> Activations::allocate(int64_t max_rows, int64_t cols) {
  QUIRE_CHECK(max_rows >= 0 && cols >= 0, "activations have no negative sizes");
  Activations out;
  out.cols_ = cols;
  const auto numbers = static_cast<size_t>(max_rows * cols);
  QUIRE_TRY(out.f32_, HugeBuffer::allocate(numbers * sizeof(float)));
  if (cols % 32 == 0) {
    QUIRE_TRY(out.q32_, HugeBuffer::allocate(numbers));
    QUIRE_TRY(out.blocks32_, HugeBuffer::allocate(numbers / 32 * sizeof(ActivationBlock)));
  }
  if (cols % 256 == 0) {
    QUIRE_TRY(out.q256_, HugeBuffer::allocate(numbers));
    QUIRE_TRY(out.scales256_, HugeBuffer::allocate(numbers / 256 * sizeof(float)));
    QUIRE_TRY(out.sums16_, HugeBuffer::allocate(numbers / 16 * sizeof(int16_t)));
  }
  return out;
}

float* Activations::f32() {
  return f32_.as<float>().data();
}
int8_t* Activations::q32() {
  return q32_.as<int8_t>().data();
}
ActivationBlock* Activations::blocks32() {
  return blocks32_.as<ActivationBlock>().data();
}
int8_t* Activations::q256() {
  return q256_.as<int8_t>().data();
}
float* Activations::scales256() {
  return scales256_.as<float>().data();
}
int16_t* Activations::sums16() {
  return sums16_.as<int16_t>().data();
}
int64_t Activations::cols() const {
  return cols_;
}

int64_t Activations::bytes() const {
  return static_cast<int64_t>(f32_.size() + q32_.size() + blocks32_.size() + q256_.size() +
                              scales256_.size() + sums16_.size());
}

ActivationView Activations::view(int64_t first_row, int64_t num_rows) {
  const int64_t at = first_row * cols_;
  const auto from = [](auto* numbers, int64_t offset) {
    return numbers == nullptr ? nullptr : numbers + offset;
  };
  return {num_rows,
          cols_,
          from(f32(), at),
          from(q32(), at),
          from(blocks32(), at / 32),
          from(q256(), at),
          from(scales256(), at / 256),
          from(sums16(), at / 16)};
}

}  // namespace quire::kernels
