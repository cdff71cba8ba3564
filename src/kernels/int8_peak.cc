#include "kernels/int8_peak.h"

namespace quire::kernels {

int64_t run_int8_peak(std::string_view isa, int64_t iterations) {
  if (isa == "avx512") return avx512::run_int8_peak(iterations);
  if (isa == "avx2") return avx2::run_int8_peak(iterations);
  return 0;
}

}  // namespace quire::kernels
