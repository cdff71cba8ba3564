// One formula: the planner's caches are those of kv/geometry.h, whatever the codec and the window.
#include "plan/cache_plan.h"

#include <gtest/gtest.h>

#include "plan/kv_error.h"
#include "plan/plan_testing.h"

namespace quire::plan {
namespace {

/// The geometry that an engine would make of the same layers.
kv::KvGeometry geometry_of(const ModelShape& shape, kv::KvCodecs codecs,
                           const CacheStrategy& strategy) {
  std::vector<kv::LayerKv> layers;
  for (const LayerCache& layer : shape.layers) {
    kv::LayerKv out{.num_kv_heads = layer.num_kv_heads,
                    .head_dim = layer.key_dim,
                    .window_tokens = layer.window_tokens};
    if (strategy.window_tokens > 0 &&
        (out.window_tokens == 0 || out.window_tokens > strategy.window_tokens)) {
      out.window_tokens = static_cast<int32_t>(strategy.window_tokens);
      out.sink_tokens = static_cast<int32_t>(strategy.sink_tokens);
    }
    layers.push_back(out);
  }
  return kv::KvGeometry::create(layers, codecs).value();
}

void expect_equal(const CachePlan& plan, const kv::KvGeometry& geometry) {
  EXPECT_EQ(plan.bytes_per_token(), geometry.bytes_per_token());
  EXPECT_EQ(plan.fixed_bytes(), geometry.fixed_bytes());
  EXPECT_EQ(plan.formula(), geometry.formula());
  for (const int64_t tokens : {1, 63, 64, 65, 128, 511, 512, 577, 1000, 4096, 30001}) {
    EXPECT_EQ(plan.used_bytes(tokens), geometry.used_bytes(tokens)) << tokens;
    EXPECT_GE(plan.held_bytes(tokens), geometry.held_bytes(tokens)) << tokens;
    for (const int64_t chunk : {1, 7, 64, 512}) {
      EXPECT_EQ(plan.held_bytes(tokens) + plan.prefill_bytes(tokens, chunk),
                std::max(geometry.peak_bytes(tokens, chunk), plan.held_bytes(tokens)))
          << tokens << " in chunks of " << chunk;
    }
  }
}

TEST(CachePlan, EqualsTheGeometryOfTheEngine) {
  for (const char* name : {"smollm2-135m", "gemma-3-1b", "gpt-oss-20b", "mistral-7b-v0.1"}) {
    const ModelShape shape = published_shape(name);
    for (const kv::KvCodecs codecs : usual_codecs()) {
      for (const CacheStrategy& strategy :
           {CacheStrategy{}, CacheStrategy{.window_tokens = 300},
            CacheStrategy{.window_tokens = 1024, .sink_tokens = 4}}) {
        SCOPED_TRACE(std::string(name) + " " + kv::name(codecs));
        expect_equal(CachePlan(shape, codecs, strategy), geometry_of(shape, codecs, strategy));
      }
    }
  }
}

TEST(CachePlan, HoldsNinePagesForAWindowOf512Tokens) {
  const CachePlan cache(published_shape("gemma-3-1b"), {}, {});
  ASSERT_EQ(cache.groups().size(), 2u);
  const CacheGroup& window = cache.groups().front();
  ASSERT_TRUE(window.is_window());
  EXPECT_EQ(window.held_pages(100'000), 9);
  EXPECT_EQ(window.used_bytes(100'000), window.bytes_per_token() * 512);
}

TEST(CachePlan, CachesALatentRowOnceForAllHeads) {
  const CachePlan cache(published_shape("deepseek-v3"), {}, {});
  EXPECT_EQ(cache.bytes_per_token(), 61 * (512 + 64) * 2);
  // 128 heads of 192 and 128 dimensions.
  EXPECT_EQ(cache.multi_head_bytes(1), 61LL * 128 * (192 + 128) * 2);
}

TEST(CachePlan, KeepsOneWindowOfALongerOne) {
  // A sliding strategy narrows global layers and leaves narrower windows alone.
  const CachePlan cache(published_shape("gemma-3-1b"), {}, {.window_tokens = 2048});
  EXPECT_EQ(cache.bytes_per_token(), 0);
  EXPECT_EQ(cache.fixed_bytes(), 4 * 1024 * 2048 + 22 * 1024 * 512);
}

TEST(CachePlan, CountsSharedTokensWhereTheyStillStand) {
  const CachePlan cache(published_shape("gemma-3-1b"), {}, {});
  // All 1,000 shared tokens stand in the global layers, none in the windows of a longer sequence.
  EXPECT_EQ(cache.shared_used_bytes(2'000, 1'000), 4 * 1024 * 1'000);
  // Of 1,100 tokens the windows hold the last 512, 412 of which are shared.
  EXPECT_EQ(cache.shared_used_bytes(1'100, 1'000), 4 * 1024 * 1'000 + 22 * 1024 * 412);
}

}  // namespace
}  // namespace quire::plan
