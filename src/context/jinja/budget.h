// budget.h: how much an untrusted template may do.
//
// One number bounds time and memory together: a step is one evaluated node, one element made or
// 32 bytes copied, so all values ever made are bounded too. Nesting is counted for what recurses on
// the C++ stack; the limits let a render run on a 256 KiB stack. Single-threaded.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace quire::context::jinja {

struct Limits {
  uint64_t max_steps = 12'000'000;
  size_t max_output_bytes = size_t{64} << 20;
};

/// Parser nesting, depth of a syntax tree, and depth of a value made of lists and dicts.
inline constexpr int32_t kMaxSyntaxDepth = 100;
inline constexpr int32_t kMaxValueDepth = 150;
/// Nodes being executed at the same time: each is a few C++ frames.
inline constexpr int32_t kMaxExecutionDepth = 300;

class Budget {
 public:
  explicit Budget(uint64_t max_steps) : left_(max_steps) {}

  [[nodiscard]] bool spend(uint64_t steps) {
    if (steps > left_) return false;
    left_ -= steps;
    return true;
  }
  [[nodiscard]] bool spend_bytes(uint64_t bytes) { return spend(bytes / 32 + 1); }

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
