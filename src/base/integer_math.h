// integer_math.h: small arithmetic on counts that are known to be sane.
//
// Numbers from a file or a socket go through checked_math.h first. Pure functions.
#pragma once
#include <cstdint>

namespace quire {

/// value / divisor, rounded up. Requires value >= 0 and divisor > 0, and their sum to fit.
[[nodiscard]] constexpr int64_t divide_up(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// The smallest multiple of `step` that is not below `value`; as divide_up().
[[nodiscard]] constexpr int64_t round_up(int64_t value, int64_t step) {
  return divide_up(value, step) * step;
}

/// The largest n in [0, most] for which fits(n), if fits() once false stays false; 0 if it never
/// holds.
template <class Fits>
[[nodiscard]] int64_t largest_that_fits(int64_t most, Fits fits) {
  int64_t low = 0;
  int64_t high = most;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace quire
