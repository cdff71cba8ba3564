#include "model/rope_stretch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::model {
namespace {

using testing::HasSubstr;

/// Global layers rotate by rope 0, window layers by rope 1.
ModelConfig hybrid() {
  ModelConfig c;
  c.architecture = "hybrid";
  c.num_layers = 2;
  c.hidden = c.ffn = 64;
  c.num_heads = c.num_kv_heads = 2;
  c.head_dim = 32;
  c.vocab = 100;
  c.context = 1000;
  c.norm_eps = 1e-5f;
  c.attention_scale = 0.2f;
  c.ropes = {RopeConfig{.theta = 1e6, .dims = 32}, RopeConfig{.theta = 1e4, .dims = 32}};
  c.layers = {{.window_tokens = 64, .rope = 1}, {.window_tokens = 0, .rope = 0}};
  return c;
}

TEST(RopeStretch, IsSpelledAsAKindAndAFactor) {
  const RopeStretch yarn = parse_rope_stretch("yarn:4").value();
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.factor, 4.0);
  EXPECT_EQ(name(parse_rope_stretch("linear:2.5").value()), "linear:2.5");
  for (const char* bad : {"", "yarn", "yarn:", "yarn:0.5", "yarn:1", "yarn:nan", "yarn:inf",
                          "yarn:-4", "yarn:4x", "linear:2000", "ntk:4", ":4"}) {
    const auto refused = parse_rope_stretch(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
    EXPECT_THAT(refused.error().message, HasSubstr("yarn:4"));
  }
}

TEST(RopeStretch, StretchesTheLayersThatSeeEverythingAndTheContext) {
  const ModelConfig c = stretched(hybrid(), {RopeScaling::kYarn, 2.5}).value();
  EXPECT_EQ(c.context, 2500);
  EXPECT_EQ(c.ropes[0].scaling, RopeScaling::kYarn);
  EXPECT_EQ(c.ropes[0].original_context, 1000.0);
  EXPECT_DOUBLE_EQ(c.ropes[0].magnitude, yarn_magnitude(2.5));
  EXPECT_EQ(c.ropes[1].scaling, RopeScaling::kNone);
}

TEST(RopeStretch, StretchesWindowLayersWhereThereAreNoOthers) {
  ModelConfig c = hybrid();
  c.layers[1] = c.layers[0];
  c = stretched(std::move(c), {RopeScaling::kLinear, 2.0}).value();
  EXPECT_EQ(c.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(c.ropes[1].scaling, RopeScaling::kLinear);
  EXPECT_EQ(c.ropes[1].magnitude, 1.0);
}

TEST(RopeStretch, RefusesARotationThatIsScaledAlready) {
  ModelConfig scaled = hybrid();
  scaled.ropes[0].scaling = RopeScaling::kLlama3;
  EXPECT_THAT(stretched(std::move(scaled), {RopeScaling::kYarn, 2.0}).error().message,
              HasSubstr("scaled already"));
  ModelConfig divided = hybrid();
  divided.ropes[0].divisors.assign(16, 2.0f);
  EXPECT_FALSE(stretched(std::move(divided), {RopeScaling::kYarn, 2.0}).ok());
}

TEST(RopeStretch, RefusesAModelThatDoesNotRotate) {
  ModelConfig c = hybrid();
  for (LayerConfig& layer : c.layers) layer.rope = kNoRope;
  EXPECT_THAT(stretched(std::move(c), {RopeScaling::kYarn, 2.0}).error().message,
              HasSubstr("no rotated positions"));
}

}  // namespace
}  // namespace quire::model
