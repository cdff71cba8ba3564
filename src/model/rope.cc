#include "model/rope.h"

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

double scaled_frequency(double frequency, const RopeConfig& config) {
  switch (config.scaling) {
    case RopeScaling::kNone:
      return frequency;
    case RopeScaling::kLinear:
      return frequency / config.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(frequency, config);
  }
  return frequency;
}

}  // namespace

Rope::Rope(const RopeConfig& config) {
  const int32_t half = config.dims / 2;
  for (int32_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * i / config.dims;
    double frequency = scaled_frequency(std::pow(config.theta, -exponent), config);
    if (!config.divisors.empty()) frequency /= config.divisors[static_cast<size_t>(i)];
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
      cos[row * half + i] = static_cast<float>(std::cos(angle));
      sin[row * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace quire::model
