#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace quire::model {
namespace {

constexpr int64_t kAnyWindow = 512;  // what only LongRoPE looks at

/// The angle that a position turns pair `i` by, modulo a full turn.
double angle(const Rope& rope, int32_t position, size_t i) {
  const auto half = static_cast<size_t>(rope.half());
  std::vector<float> cos(half);
  std::vector<float> sin(half);
  rope.angles({&position, 1}, cos, sin);
  return std::atan2(sin[i], cos[i]);
}

TEST(Rope, TurnsPairsByPowersOfTheBase) {
  const Rope rope(RopeConfig{.theta = 100.0, .dims = 4}, kAnyWindow);
  EXPECT_EQ(rope.half(), 2);
  EXPECT_NEAR(angle(rope, 1, 0), 1.0, 1e-6);
  EXPECT_NEAR(angle(rope, 1, 1), 0.1, 1e-7);
  EXPECT_NEAR(angle(rope, 0, 1), 0.0, 0.0);
}

TEST(Rope, StaysExactAtLongContexts) {
  // In f32 arithmetic position * frequency would be off by up to 0.004 here.
  const Rope rope(RopeConfig{.theta = 10000.0, .dims = 64}, kAnyWindow);
  const double exact = 131071.0 * std::pow(10000.0, -2.0 / 64.0);
  EXPECT_NEAR(std::cos(angle(rope, 131071, 1)), std::cos(exact), 1e-6);
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
  const Rope rope(
      RopeConfig{.theta = 100.0, .dims = 4, .scaling = RopeScaling::kLinear, .factor = 8.0},
      kAnyWindow);
  EXPECT_NEAR(angle(rope, 8, 0), 1.0, 1e-6);
}

TEST(Rope, Llama3ScalingStretchesLongWavelengthsOnly) {
  const RopeConfig config{.theta = 500000.0,
                          .dims = 128,
                          .scaling = RopeScaling::kLlama3,
                          .factor = 8.0,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0,
                          .original_context = 8192.0};
  const Rope scaled(config, kAnyWindow);
  RopeConfig plain_config = config;
  plain_config.scaling = RopeScaling::kNone;
  const Rope plain(plain_config, kAnyWindow);
  EXPECT_EQ(angle(scaled, 3, 0), angle(plain, 3, 0));                  // wavelength 6: kept
  EXPECT_NEAR(angle(scaled, 8000, 63), angle(plain, 1000, 63), 1e-6);  // wavelength 2.6 million
  // Pair 32 turns once in 4443 tokens, between 8192 / 4 and 8192: blended.
  const double frequency = std::pow(500000.0, -0.5);
  const double smooth = (8192.0 * frequency / (2.0 * std::numbers::pi) - 1.0) / 3.0;
  const double blended = (1.0 - smooth) * frequency / 8.0 + smooth * frequency;
  EXPECT_NEAR(angle(scaled, 100, 32), 100.0 * blended, 1e-6);
}

TEST(Rope, DivisorsSlowTheirOwnFrequency) {
  const Rope rope(RopeConfig{.theta = 100.0, .dims = 4, .divisors = {1.0f, 4.0f}}, kAnyWindow);
  EXPECT_NEAR(angle(rope, 4, 1), 0.1, 1e-6);
  EXPECT_NEAR(angle(rope, 1, 0), 1.0, 1e-6);
}

TEST(Rope, YarnKeepsFastPairsAndStretchesSlowOnes) {
  const RopeConfig plain_config{.theta = 10000.0, .dims = 128};
  RopeConfig config = plain_config;
  config.scaling = RopeScaling::kYarn;
  config.factor = 16.0;
  config.original_context = 4096.0;
  const Rope scaled(config, kAnyWindow);
  const Rope plain(plain_config, kAnyWindow);
  // beta_fast and beta_slow fall on pairs 20.95 and 45.03, widened to 20 and 46.
  EXPECT_EQ(angle(scaled, 3, 20), angle(plain, 3, 20));
  EXPECT_NEAR(angle(scaled, 16000, 46), angle(plain, 1000, 46), 1e-6);
  EXPECT_NEAR(angle(scaled, 16000, 63), angle(plain, 1000, 63), 1e-6);
  const double frequency = std::pow(10000.0, -33.0 / 64.0);
  EXPECT_NEAR(angle(scaled, 1, 33), frequency * (0.5 + 0.5 / 16.0), 1e-9);

  config.whole_pairs = false;
  const Rope narrow(config, kAnyWindow);
  const double share = (33.0 - 20.948) / (45.026 - 20.948);
  EXPECT_NEAR(angle(narrow, 1, 33), frequency * (1.0 - share + share / 16.0), 1e-6);
}

TEST(Rope, MagnitudeMultipliesCosAndSin) {
  const Rope rope(RopeConfig{.theta = 100.0, .dims = 2, .magnitude = 1.25}, kAnyWindow);
  const int32_t position = 2;
  float cos = 0.0f;
  float sin = 0.0f;
  rope.angles({&position, 1}, {&cos, 1}, {&sin, 1});
  EXPECT_FLOAT_EQ(cos, static_cast<float>(1.25 * std::cos(2.0)));
  EXPECT_FLOAT_EQ(sin, static_cast<float>(1.25 * std::sin(2.0)));
}

TEST(Rope, LongRopeChoosesItsFactorsByTheWindowThatWasAskedFor) {
  const RopeConfig config{.theta = 100.0,
                          .dims = 2,
                          .scaling = RopeScaling::kLongRope,
                          .original_context = 4096.0,
                          .divisors = {1.0f},
                          .long_divisors = {8.0f}};
  EXPECT_NEAR(angle(Rope(config, 4096), 1, 0), 1.0, 1e-6);
  EXPECT_NEAR(angle(Rope(config, 4097), 1, 0), 0.125, 1e-7);
}

TEST(RopeMagnitudes, FollowTheirPapers) {
  EXPECT_DOUBLE_EQ(yarn_magnitude(1.0), 1.0);
  EXPECT_NEAR(yarn_magnitude(4.0), 1.138629, 1e-6);
  EXPECT_DOUBLE_EQ(long_rope_magnitude(1.0, 4096.0), 1.0);
  EXPECT_NEAR(long_rope_magnitude(32.0, 4096.0), 1.190238, 1e-6);  // Phi-3-mini-128k
}

}  // namespace
}  // namespace quire::model
