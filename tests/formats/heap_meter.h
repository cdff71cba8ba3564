// heap_meter.h: how much heap a piece of work holds at its worst moment.
//
// Linking heap_meter.cc replaces operator new and delete of the whole test binary by versions that
// count. Counts the work of all threads; measure on one.
#pragma once
#include <cstdint>

namespace quire::formats {

class HeapMeter {
 public:
  /// Starts measuring: the peak is counted from what is held now.
  HeapMeter();
  /// The most bytes held at once, above what was held at the start.
  int64_t peak_bytes() const;

 private:
  int64_t start_;
};

}  // namespace quire::formats
