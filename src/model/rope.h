// rope.h: the rotation angles of positions, computed in double and rounded once.
//
// One Rope per kind of layer (Gemma 3 has two). Angles depend on the position, the configuration
// and the window that was asked for, never on the current length, so cached keys stay valid.
// Immutable; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace quire::model {

/// Whether a cache with that window takes LongRoPE's second set of factors.
bool takes_long_factors(const RopeConfig& config, int64_t window_tokens);

class Rope {
 public:
  /// `window_tokens` chooses between LongRoPE's two sets of factors; others do not look at it.
  Rope(const RopeConfig& config, int64_t window_tokens);

  /// [half], radians per position.
  std::span<const double> frequencies() const { return frequencies_; }
  int32_t half() const { return static_cast<int32_t>(frequencies_.size()); }

  /// cos and sin of position * frequency, times the configuration's magnitude.
  /// // cos, sin: [positions, half]
  void angles(std::span<const int32_t> positions, std::span<float> cos, std::span<float> sin) const;

 private:
  std::vector<double> frequencies_;  // [half], radians per position
  double magnitude_;
};

}  // namespace quire::model
