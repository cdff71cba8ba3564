#include "formats/heap_meter.h"

#include <gtest/gtest.h>

#include <memory>

namespace quire::formats {
namespace {

// The tests of hostile files trust it: it must see what they hunt.
TEST(HeapMeter, SeesAPeakThatIsGoneAgain) {
  HeapMeter meter;
  std::make_unique<char[]>(10 << 20).reset();
  EXPECT_GE(meter.peak_bytes(), 10 << 20);
  EXPECT_LT(meter.peak_bytes(), 11 << 20);
}

TEST(HeapMeter, DoesNotAddUpWhatIsNotHeldTogether) {
  HeapMeter meter;
  for (int i = 0; i < 100; ++i) std::make_unique<char[]>(1 << 20).reset();
  EXPECT_LT(meter.peak_bytes(), 2 << 20);
}

}  // namespace
}  // namespace quire::formats
