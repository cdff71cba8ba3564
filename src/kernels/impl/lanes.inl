// lanes.inl: how loops over any number of floats end in a vector that is not full.
#pragma once
#include <cstdint>

namespace quire::kernels::QUIRE_ISA {

/// Lanes of the vector that starts at `i`, of `count` numbers in all: what load_first and
/// store_first take.
QUIRE_ALWAYS_INLINE int lanes_left(int64_t i, int64_t count) {
  return count - i < 16 ? static_cast<int>(count - i) : 16;
}

}  // namespace quire::kernels::QUIRE_ISA
