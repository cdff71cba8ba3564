// The kernels compiled for avx512; see simd/README.md for the rules of this file.
#include "kernels/simd/avx512.h"

#define QUIRE_ISA avx512

#include "kernels/impl/elementwise.inl"
#include "kernels/impl/layer_norm.inl"
#include "kernels/impl/pointwise.inl"
#include "kernels/impl/attention.inl"
#include "kernels/impl/store_kv.inl"
#include "kernels/impl/seal_kv.inl"
#include "kernels/impl/dot_avx512.inl"
#include "kernels/impl/matmul.inl"
#include "kernels/impl/matmul_unpacked.inl"
#include "kernels/impl/kernel_table.inl"
