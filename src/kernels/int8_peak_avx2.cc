#include <immintrin.h>

#include "kernels/int8_peak.h"

namespace quire::kernels::avx2 {

int64_t run_int8_peak(int64_t iterations) {
  constexpr int kSums = 4;  // chains of additions side by side
  __m256i sums[kSums] = {};
  __m256i unsigned_bytes = _mm256_set1_epi8(3);
  const __m256i signed_bytes = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < iterations; ++i) {
    // Without this the compiler would see that each turn computes the same.
    asm volatile("" : "+x"(unsigned_bytes));
    for (__m256i& sum : sums) {
      __m256i products = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
      for (int k = 1; k < 4; ++k) {
        asm volatile("" : "+x"(unsigned_bytes));
        products = _mm256_add_epi16(products, _mm256_maddubs_epi16(unsigned_bytes, signed_bytes));
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products, ones));
    }
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
  return iterations * kSums * 4 * 32 * 2;
}

}  // namespace quire::kernels::avx2
