// int8_peak.h: how fast this processor multiplies and adds small integers, with nothing to wait
// for.
//
// A loop over registers with the instructions of the integer matrix products: eight products of
// 8 bits a maddubs, four of them to a madd (AVX2), or vpdpbusd (AVX-512 VNNI). What prefill could
// reach at best. Any thread; one core each.
#pragma once
#include <cstdint>
#include <string_view>

namespace quire::kernels {

/// Runs the loop of this instruction set (a KernelSet's name) so many times and returns how many
/// operations that were: a product and a sum count as two. 0 for a set without such instructions.
int64_t run_int8_peak(std::string_view isa, int64_t iterations);

namespace avx2 {
int64_t run_int8_peak(int64_t iterations);
}
namespace avx512 {
int64_t run_int8_peak(int64_t iterations);
}

}  // namespace quire::kernels
