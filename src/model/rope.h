// rope.h: the rotation angles of positions, computed in double and rounded once.
//
// One Rope per kind of layer (Gemma 3 has two). Angles depend on the position and the configuration
// only, never on the current length, so cached keys stay valid. Immutable; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace quire::model {

class Rope {
 public:
  explicit Rope(const RopeConfig& config);

  /// [half], radians per position.
  std::span<const double> frequencies() const { return frequencies_; }
  int32_t half() const { return static_cast<int32_t>(frequencies_.size()); }

  /// cos and sin of position * frequency. // cos, sin: [positions, half]
  void angles(std::span<const int32_t> positions, std::span<float> cos, std::span<float> sin) const;

 private:
  std::vector<double> frequencies_;  // [half], radians per position
};

}  // namespace quire::model
