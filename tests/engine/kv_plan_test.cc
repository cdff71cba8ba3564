#include "engine/kv_plan.h"

#include <gtest/gtest.h>

namespace quire::engine {
namespace {

/// One global layer and six that see 32 tokens.
model::ModelConfig hybrid() {
  model::ModelConfig config;
  config.num_kv_heads = 1;
  config.head_dim = 24;
  config.layers.resize(7);
  for (size_t i = 1; i < config.layers.size(); ++i) config.layers[i].window_tokens = 32;
  return config;
}

TEST(KvPlan, SeparatesWindowLayersFromGlobalOnes) {
  const auto geometry = kv_geometry(hybrid(), {});
  ASSERT_TRUE(geometry.ok());
  // 24 dims x (2 K + 2 V) bytes.
  EXPECT_EQ(geometry->bytes_per_token(), 96);
  EXPECT_EQ(geometry->fixed_bytes(), 6 * 32 * 96);
}

TEST(KvPlan, FindsTheLongestContextThatFits) {
  const kv::KvGeometry geometry = *kv_geometry(hybrid(), {});
  const int64_t bytes = geometry.peak_bytes(1000, 64);
  const int64_t affordable = affordable_tokens(geometry, bytes, 100'000, 64);
  EXPECT_LE(geometry.peak_bytes(affordable, 64), bytes);
  EXPECT_GT(geometry.peak_bytes(affordable + 1, 64), bytes);
  EXPECT_EQ(affordable_tokens(geometry, bytes, 500, 64), 500);
  EXPECT_EQ(affordable_tokens(geometry, 0, 500, 64), 0);
}

}  // namespace
}  // namespace quire::engine
