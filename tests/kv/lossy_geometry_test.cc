#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kv/geometry.h"
#include "kv/kv_store.h"

namespace quire::kv {
namespace {

KvGeometry geometry_of(std::vector<LayerKv> layers, std::string_view codecs) {
  return KvGeometry::create(layers, codecs_from_name(codecs).value()).value();
}

const std::vector<LayerKv> kSmolLm2(30, LayerKv{3, 64, 0});

TEST(LossyGeometry, CountsCodesScalesAndMinimaOfASealedPage) {
  struct Case {
    std::string_view codecs;
    int64_t plane_bytes;  // K and V of one layer and kv head: 2 x 64 x 64 codes, 2 x 64 x 2 halves
  };
  for (const auto& [codecs, plane_bytes] :
       {Case{"q8", 8192 + 512}, Case{"q6", 6144 + 512}, Case{"q4", 4096 + 512},
        Case{"q3", 3072 + 512}, Case{"q2", 2048 + 512}, Case{"q6/q4", 3072 + 2048 + 512},
        Case{"f16/q4", 8192 + 2048 + 256}}) {
    const auto geometry = geometry_of(kSmolLm2, codecs);
    const LayerGroup& group = geometry.groups()[0];
    EXPECT_EQ(group.sealed_payload_bytes(), 90 * plane_bytes) << codecs;
    EXPECT_EQ(geometry.bytes_per_token(), (90 * plane_bytes + 63) / 64) << codecs;
  }
}

TEST(LossyGeometry, KeepsPageZeroAndThePageBeingFilledInHalfPrecision) {
  const auto geometry = geometry_of(kSmolLm2, "q8");
  const int64_t row = 23'040;
  const int64_t sealed = 90 * 8704;
  EXPECT_EQ(geometry.used_bytes(1), row);
  EXPECT_EQ(geometry.used_bytes(64), 64 * row);
  EXPECT_EQ(geometry.used_bytes(127), 127 * row);
  EXPECT_EQ(geometry.used_bytes(128), 64 * row + sealed);
  EXPECT_EQ(geometry.used_bytes(200), 72 * row + 2 * sealed);
  // At a page's end its open form is still there, so that the last token can be run again.
  EXPECT_EQ(geometry.held_bytes(128), 128 * row + geometry.groups()[0].sealed_page_bytes());
}

TEST(LossyGeometry, SpellsItsFormulaOut) {
  EXPECT_EQ(geometry_of(kSmolLm2, "q6/q4").formula(),
            "30 layers x 3 kv heads x (3,328 K + 2,304 V) bytes a sealed page / 64 tokens = 7,920 "
            "bytes a token");
  EXPECT_EQ(geometry_of({{1, 64, 512, 4}}, "f16").formula(),
            "1 layers x 1 kv heads x 64 dims x (2 K + 2 V) bytes x (512 window + 4 sink) tokens = "
            "132,096 bytes a sequence");
}

TEST(LossyGeometry, RefusesHeadsTooWideToSeal) {
  const std::vector<LayerKv> wide = {{1, 2048, 0}};
  EXPECT_TRUE(KvGeometry::create(wide, {}).ok());
  EXPECT_FALSE(KvGeometry::create(wide, {Codec::Q8, Codec::Q8}).ok());
}

TEST(LossyGeometry, RefusesSinksWithoutAWindow) {
  EXPECT_FALSE(KvGeometry::create(std::vector<LayerKv>{{1, 64, 0, 4}}, {}).ok());
}

/// Grows one sequence by `chunk` at a time and compares what the store counts with the formula.
void expect_formula_holds(const KvGeometry& geometry, int64_t chunk) {
  SCOPED_TRACE(testing::Message() << geometry.formula() << ", chunks of " << chunk);
  auto store = KvStore::create(geometry, {.budget_bytes = int64_t{1} << 30}).value();
  const KvSequence seq = store->create_sequence();
  constexpr int64_t kMost = 700;
  int64_t peak = 0;
  for (int64_t length = 0; length < kMost;) {
    const int64_t tokens = std::min(chunk, kMost - length);
    ASSERT_TRUE(store->reserve(seq, tokens).ok());
    peak = std::max(peak, store->stats().bytes_held);
    store->commit(seq, tokens);
    store->check();
    length += tokens;
    ASSERT_EQ(store->used_bytes(seq), geometry.used_bytes(length)) << length;
    ASSERT_EQ(store->held_bytes(seq), geometry.held_bytes(length)) << length;
    ASSERT_EQ(store->stats().bytes_held, geometry.held_bytes(length)) << length;
    ASSERT_LE(peak, geometry.peak_bytes(length, chunk)) << length;
  }
}

TEST(LossyGeometry, IsWhatTheStoreCountsAtEveryLength) {
  const std::vector<LayerKv> hybrid = {{1, 16, 0}, {1, 16, 100}, {2, 8, 0}, {1, 16, 40, 70}};
  for (const std::string_view codecs : {"f16", "f32/bf16", "q8", "q6/q4", "q3/f16"}) {
    for (const int64_t chunk : {1, 7, 64, 65, 200}) {
      expect_formula_holds(geometry_of(hybrid, codecs), chunk);
    }
  }
}

}  // namespace
}  // namespace quire::kv
