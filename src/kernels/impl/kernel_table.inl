// kernel_table.inl: the table of one instruction set; the only name of its file that others see.
#pragma once
#include "kernels/dequantize.h"
#include "kernels/kernel_set.h"
#include "kernels/kernel_tables.h"

#define QUIRE_NAME_(isa) #isa
#define QUIRE_NAME(isa) QUIRE_NAME_(isa)

namespace quire::kernels::QUIRE_ISA {
namespace {

constexpr KernelSet kKernels = {
    .isa = kIsa,
    .name = QUIRE_NAME(QUIRE_ISA),
    .matmul = matmul,
    .dequantize_row = kernels::dequantize_row,
    .quantize_per_32 = quantize_per_32,
    .quantize_columns_per_32 = quantize_columns_per_32,
    .quantize_per_256 = quantize_per_256,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .rope = rope,
    .swiglu = swiglu,
    .geglu_tanh = geglu_tanh,
    .gelu_tanh = gelu_tanh_all,
    .gelu_erf = gelu_erf_all,
    .add = add,
    .scale = scale,
    .add_scaled = add_scaled,
    .sigmoid = sigmoid,
    .soft_cap = soft_cap,
    .softmax = softmax,
    .store_kv = store_kv,
    .seal_kv = seal_kv,
    .attention = attention,
    .attention_split = attention_split,
    .attention_merge = attention_merge,
};

}  // namespace

const KernelSet& kernel_set() {
  return kKernels;
}

}  // namespace quire::kernels::QUIRE_ISA

#undef QUIRE_NAME
#undef QUIRE_NAME_
