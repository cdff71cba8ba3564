// budget.h: what opening one input may cost: heap of 4 times its size plus 16 MB, a second of CPU.
//
// Aborts, naming both numbers, when it cost more, so that libFuzzer keeps the input. The heap is
// counted by heap_meter.cc, which every harness that includes this must link. Use from one thread.
#pragma once
#include <cstdint>
#include <ctime>

#include "base/check.h"
#include "formats/heap_meter.h"

namespace quire::fuzz {

class Budget {
 public:
  Budget() : start_(cpu_seconds()) {}

  /// To be called when the input has been opened and what it allocated may still be held.
  void check(uint64_t input_bytes) const {
    constexpr int64_t kFreeBytes = 16 << 20;
    QUIRE_CHECK_LE(meter_.peak_bytes(), 4 * static_cast<int64_t>(input_bytes) + kFreeBytes);
    QUIRE_CHECK_LE(cpu_seconds() - start_, 1.0);
  }

 private:
  /// Of this thread: a busy machine is no hang.
  static double cpu_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  formats::HeapMeter meter_;
  double start_;
};

}  // namespace quire::fuzz
