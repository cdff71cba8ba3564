#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace quire::model {
namespace {

/// The angle that a position turns pair `i` by, modulo a full turn.
double angle(const Rope& rope, int32_t position, size_t i) {
  const auto half = static_cast<size_t>(rope.half());
  std::vector<float> cos(half);
  std::vector<float> sin(half);
  rope.angles({&position, 1}, cos, sin);
  return std::atan2(sin[i], cos[i]);
}

TEST(Rope, TurnsPairsByPowersOfTheBase) {
  const Rope rope(RopeConfig{.theta = 100.0, .dims = 4, .divisors = {}});
  EXPECT_EQ(rope.half(), 2);
  EXPECT_NEAR(angle(rope, 1, 0), 1.0, 1e-6);
  EXPECT_NEAR(angle(rope, 1, 1), 0.1, 1e-7);
  EXPECT_NEAR(angle(rope, 0, 1), 0.0, 0.0);
}

TEST(Rope, StaysExactAtLongContexts) {
  // In f32 arithmetic position * frequency would be off by up to 0.004 here.
  const Rope rope(RopeConfig{.theta = 10000.0, .dims = 64, .divisors = {}});
  const double exact = 131071.0 * std::pow(10000.0, -2.0 / 64.0);
  EXPECT_NEAR(std::cos(angle(rope, 131071, 1)), std::cos(exact), 1e-6);
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
  const Rope rope(RopeConfig{
      .theta = 100.0, .dims = 4, .scaling = RopeScaling::kLinear, .factor = 8.0, .divisors = {}});
  EXPECT_NEAR(angle(rope, 8, 0), 1.0, 1e-6);
}

TEST(Rope, Llama3ScalingStretchesLongWavelengthsOnly) {
  const RopeConfig config{.theta = 500000.0,
                          .dims = 128,
                          .scaling = RopeScaling::kLlama3,
                          .factor = 8.0,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0,
                          .original_context = 8192.0,
                          .divisors = {}};
  const Rope scaled(config);
  RopeConfig plain_config = config;
  plain_config.scaling = RopeScaling::kNone;
  const Rope plain(plain_config);
  EXPECT_EQ(angle(scaled, 3, 0), angle(plain, 3, 0));                  // wavelength 6: kept
  EXPECT_NEAR(angle(scaled, 8000, 63), angle(plain, 1000, 63), 1e-6);  // wavelength 2.6 million
  // Pair 32 turns once in 4443 tokens, between 8192 / 4 and 8192: blended.
  const double frequency = std::pow(500000.0, -0.5);
  const double smooth = (8192.0 * frequency / (2.0 * std::numbers::pi) - 1.0) / 3.0;
  const double blended = (1.0 - smooth) * frequency / 8.0 + smooth * frequency;
  EXPECT_NEAR(angle(scaled, 100, 32), 100.0 * blended, 1e-6);
}

TEST(Rope, DivisorsSlowTheirOwnFrequency) {
  const Rope rope(RopeConfig{.theta = 100.0, .dims = 4, .divisors = {1.0f, 4.0f}});
  EXPECT_NEAR(angle(rope, 4, 1), 0.1, 1e-6);
  EXPECT_NEAR(angle(rope, 1, 0), 1.0, 1e-6);
}

}  // namespace
}  // namespace quire::model
