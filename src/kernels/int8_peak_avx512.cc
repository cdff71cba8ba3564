#include <immintrin.h>

#include "kernels/int8_peak.h"

namespace quire::kernels::avx512 {

int64_t run_int8_peak(int64_t iterations) {
  constexpr int kSums = 16;  // chains of additions side by side
  __m512i sums[kSums] = {};
  __m512i unsigned_bytes = _mm512_set1_epi8(3);
  const __m512i signed_bytes = _mm512_set1_epi8(-5);
  for (int64_t i = 0; i < iterations; ++i) {
    // Without this the compiler would see that each turn computes the same.
    asm volatile("" : "+v"(unsigned_bytes));
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, unsigned_bytes, signed_bytes);
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  return iterations * kSums * 64 * 2;
}

}  // namespace quire::kernels::avx512
