// budget.h: how much an untrusted template may do.
//
// Steps bound the time: one for each evaluated node, each element made, and some bytes copied.
// Small values are bounded by the steps they cost; long texts are counted while they live. Nesting
// is counted for what recurses on the C++ stack; the limits let a render run on a 256 KiB stack.
// Single-threaded.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace quire::context::jinja {

struct Limits {
  uint64_t max_steps = 8'000'000;
  size_t max_output_bytes = size_t{64} << 20;
  size_t max_live_bytes = size_t{256} << 20;  // of texts longer than kLongTextBytes
};

inline constexpr size_t kLongTextBytes = 4096;

/// Parser nesting, depth of a syntax tree, and depth of a value made of lists and dicts.
inline constexpr int32_t kMaxSyntaxDepth = 100;
inline constexpr int32_t kMaxValueDepth = 100;
/// Nodes being executed at the same time: each is a few C++ frames.
inline constexpr int32_t kMaxExecutionDepth = 200;

class Budget {
 public:
  explicit Budget(uint64_t max_steps) : left_(max_steps) {}

  [[nodiscard]] bool spend(uint64_t steps) {
    if (steps > left_) return false;
    left_ -= steps;
    return true;
  }
  /// Copying: a short text costs mostly its allocation, a long one its memory traffic.
  [[nodiscard]] bool spend_bytes(uint64_t bytes) {
    return spend(1 + (bytes <= kLongTextBytes ? bytes / 32 : kLongTextBytes / 32 + bytes / 256));
  }

  static Error exhausted() {
    return {ErrorCode::kDoesNotFit, "the template does more work than a prompt can need"};
  }
  static Error too_deep() {
    return {ErrorCode::kDoesNotFit, "the template nests or recurses too deeply"};
  }

 private:
  uint64_t left_;
};

}  // namespace quire::context::jinja
