// matmul.inl: the product of packed weights and activations, by the weights' type.
#pragma once
#include "kernels/impl/matmul_float.inl"
#include "kernels/impl/matmul_int8.inl"
#include "kernels/impl/quantize.inl"

namespace quire::kernels::QUIRE_ISA {

static void matmul(const MatmulArgs& args, int64_t panel_begin, int64_t panel_end) {
  const ElementType type = args.weights->type();
  switch (type) {
    case ElementType::F32:
      return float_matmul<ElementType::F32>(args, panel_begin, panel_end);
    case ElementType::F16:
      return float_matmul<ElementType::F16>(args, panel_begin, panel_end);
    case ElementType::BF16:
      return float_matmul<ElementType::BF16>(args, panel_begin, panel_end);
    default:
      break;
  }
  if (args.policy == ActivationPolicy::kF32) {
    return float_matmul<ElementType::Q8_0>(args, panel_begin, panel_end);
  }
  switch (type) {
    case ElementType::Q8_0:
      return int8_matmul<ElementType::Q8_0>(args, panel_begin, panel_end);
    case ElementType::Q4_0:
      return int8_matmul<ElementType::Q4_0>(args, panel_begin, panel_end);
    case ElementType::Q4_1:
      return int8_matmul<ElementType::Q4_1>(args, panel_begin, panel_end);
    case ElementType::Q5_0:
      return int8_matmul<ElementType::Q5_0>(args, panel_begin, panel_end);
    case ElementType::Q5_1:
      return int8_matmul<ElementType::Q5_1>(args, panel_begin, panel_end);
    case ElementType::IQ4_NL:
      return int8_matmul<ElementType::IQ4_NL>(args, panel_begin, panel_end);
    case ElementType::Q2_K:
      return int8_matmul<ElementType::Q2_K>(args, panel_begin, panel_end);
    case ElementType::Q3_K:
      return int8_matmul<ElementType::Q3_K>(args, panel_begin, panel_end);
    case ElementType::Q4_K:
      return int8_matmul<ElementType::Q4_K>(args, panel_begin, panel_end);
    case ElementType::Q5_K:
      return int8_matmul<ElementType::Q5_K>(args, panel_begin, panel_end);
    case ElementType::Q6_K:
      return int8_matmul<ElementType::Q6_K>(args, panel_begin, panel_end);
    default:
      return;
  }
}

}  // namespace quire::kernels::QUIRE_ISA
