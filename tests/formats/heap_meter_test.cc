#include "formats/heap_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire::formats {
namespace {

/// Allocates and frees; through a volatile, or the compiler would leave both out.
void hold_for_a_moment(size_t num_bytes) {
  const std::vector<char> block(num_bytes, 'x');
  volatile const char* last = &block.back();
  EXPECT_EQ(*last, 'x');
}

// The tests of hostile files trust it: it must see what they hunt.
TEST(HeapMeter, SeesAPeakThatIsGoneAgain) {
  HeapMeter meter;
  hold_for_a_moment(10 << 20);
  EXPECT_GE(meter.peak_bytes(), 10 << 20);
  EXPECT_LT(meter.peak_bytes(), 11 << 20);
}

TEST(HeapMeter, DoesNotAddUpWhatIsNotHeldTogether) {
  HeapMeter meter;
  for (int i = 0; i < 100; ++i) hold_for_a_moment(1 << 20);
  EXPECT_GE(meter.peak_bytes(), 1 << 20);
  EXPECT_LT(meter.peak_bytes(), 2 << 20);
}

}  // namespace
}  // namespace quire::formats
