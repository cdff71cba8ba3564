// kernel_tables.h: where kernel_set.cc finds the table of each instruction set.
#pragma once
#include "kernels/kernel_set.h"

namespace quire::kernels {

namespace scalar {
inline constexpr Isa kIsa = Isa::kScalar;
const KernelSet& kernel_set();
}  // namespace scalar

namespace avx2 {
inline constexpr Isa kIsa = Isa::kAvx2;
const KernelSet& kernel_set();
}  // namespace avx2

namespace avx512 {
inline constexpr Isa kIsa = Isa::kAvx512;
const KernelSet& kernel_set();
}  // namespace avx512

}  // namespace quire::kernels
