#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace quire::model {
namespace {

/// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between blended.
double llama3_frequency(double frequency, const RopeConfig& config) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low_wavelength = config.original_context / config.low_freq_factor;
  const double high_wavelength = config.original_context / config.high_freq_factor;
  if (wavelength < high_wavelength) return frequency;
  if (wavelength > low_wavelength) return frequency / config.factor;
  const double smooth = (config.original_context / wavelength - config.low_freq_factor) /
                        (config.high_freq_factor - config.low_freq_factor);
  return (1.0 - smooth) * frequency / config.factor + smooth * frequency;
}

/// The pair, not always whole, that turns `rotations` times in the original context.
double yarn_pair(double rotations, const RopeConfig& config) {
  return config.dims * std::log(config.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

/// YaRN: the share of `frequency / factor` rises linearly from the pair that turns beta_fast times
/// to the one that turns beta_slow times. // arXiv:2309.00071, section 3.2
double yarn_frequency(double frequency, int32_t pair, const RopeConfig& config) {
  double first = yarn_pair(config.beta_fast, config);
  double last = yarn_pair(config.beta_slow, config);
  if (config.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, config.dims - 1.0);
  if (first == last) last += 0.001;  // as transformers does: a step instead of a division by zero
  const double stretched = std::clamp((pair - first) / (last - first), 0.0, 1.0);
  return frequency / config.factor * stretched + frequency * (1.0 - stretched);
}

double scaled_frequency(double frequency, int32_t pair, const RopeConfig& config) {
  switch (config.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kLongRope:  // all in its divisors
      return frequency;
    case RopeScaling::kLinear:
      return frequency / config.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(frequency, config);
    case RopeScaling::kYarn:
      return yarn_frequency(frequency, pair, config);
  }
  return frequency;
}

}  // namespace

bool takes_long_factors(const RopeConfig& config, int64_t window_tokens) {
  return config.scaling == RopeScaling::kLongRope &&
         static_cast<double>(window_tokens) > config.original_context;
}

Rope::Rope(const RopeConfig& config, int64_t window_tokens) : magnitude_(config.magnitude) {
  const std::vector<float>& divisors =
      takes_long_factors(config, window_tokens) ? config.long_divisors : config.divisors;
  const int32_t half = config.dims / 2;
  for (int32_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * i / config.dims;
    double frequency = scaled_frequency(std::pow(config.theta, -exponent), i, config);
    if (!divisors.empty()) frequency /= divisors[static_cast<size_t>(i)];
    frequencies_.push_back(frequency);
  }
}

void Rope::angles(std::span<const int32_t> positions, std::span<float> cos,
                  std::span<float> sin) const {
  const size_t half = frequencies_.size();
  QUIRE_CHECK_LE(positions.size() * half, cos.size());
  QUIRE_CHECK_LE(positions.size() * half, sin.size());
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = positions[row] * frequencies_[i];
      cos[row * half + i] = static_cast<float>(std::cos(angle) * magnitude_);
      sin[row * half + i] = static_cast<float>(std::sin(angle) * magnitude_);
    }
  }
}

}  // namespace quire::model
