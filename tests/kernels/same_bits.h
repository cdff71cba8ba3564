// same_bits.h: equality of floats bit by bit, as law 1 means it.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <span>

namespace quire::kernels {

inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " and " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace quire::kernels
