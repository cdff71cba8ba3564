#include "plan/memory_plan.h"

#include <gmock/gmock.h>

#include "plan/chart.h"
#include "plan/kv_error.h"
#include "plan/plan_testing.h"
#include "plan/source.h"
#include "plan/what_if.h"

namespace quire::plan {
namespace {

using ::testing::HasSubstr;

ModelShape qwen_by_hand() {
  return shape_of_numbers({.layers = 28, .kv_heads = 4, .head_dim = 128}).value();
}

TEST(MemoryPlan, OfBareNumbersIsTheCacheAlone) {
  const MemoryPlan plan = plan_memory(qwen_by_hand(), request_of(32'768));
  EXPECT_EQ(plan.kv_used, 1'879'048'192);
  EXPECT_EQ(plan.page_rounding, 0);
  EXPECT_EQ(plan.total, 1'879'048'192);
}

TEST(MemoryPlan, IsMultipliedByBeamsAndSequences) {
  PlanRequest request = request_of(32'768);
  request.beams = 4;
  EXPECT_EQ(plan_memory(qwen_by_hand(), request).kv_used, 4LL * 1'879'048'192);
  request.sequences = 3;
  EXPECT_EQ(plan_memory(qwen_by_hand(), request).kv_used, 12LL * 1'879'048'192);
}

TEST(MemoryPlan, CountsSharedTokensOnce) {
  PlanRequest request = request_of(1'024);
  request.sequences = 1'000;
  request.shared = 960;
  const MemoryPlan plan = plan_memory(qwen_by_hand(), request);
  EXPECT_EQ(plan.kv_used, 57'344LL * (960 + 1'000 * 64));
  EXPECT_EQ(plan.page_rounding, 0);
}

TEST(MemoryPlan, SharesWholePagesOnlyWhenTheyAreLossy) {
  PlanRequest request = request_of(1'024);
  request.sequences = 1'000;
  request.kv = {kv::Codec::Q8, kv::Codec::Q8};
  request.shared = 960;
  const int64_t whole = plan_memory(qwen_by_hand(), request).total;
  request.shared = 1'000;
  EXPECT_EQ(plan_memory(qwen_by_hand(), request).total, whole);
}

TEST(MemoryPlan, RoundsEverySequenceUpToPages) {
  PlanRequest request = request_of(65);
  request.sequences = 10;
  const MemoryPlan plan = plan_memory(qwen_by_hand(), request);
  EXPECT_EQ(plan.kv_used, 10 * 65 * 57'344);
  EXPECT_EQ(plan.kv_used + plan.page_rounding, 10 * 128 * 57'344);
}

TEST(MemoryPlan, UsesTheMeanLengthOfSequences) {
  PlanRequest request = request_of(32'768);
  request.mean_context = 1'024;
  EXPECT_EQ(plan_memory(qwen_by_hand(), request).kv_used, 57'344 * 1'024);
}

TEST(MemoryPlan, ReservesTheWindowWhenStatic) {
  PlanRequest request = request_of(32'768);
  request.mean_context = 1'024;
  request.cache.reserves_all = true;
  const MemoryPlan plan = plan_memory(qwen_by_hand(), request);
  EXPECT_EQ(plan.kv_used, 57'344 * 1'024);
  EXPECT_EQ(plan.kv_used + plan.page_rounding, 57'344LL * 32'768);
}

TEST(MemoryPlan, KeepsOnDiskWhatAnOffloadedCacheMayNotHold) {
  PlanRequest request = request_of(32'768);
  request.cache.resident_bytes = 200 << 20;
  const MemoryPlan plan = plan_memory(qwen_by_hand(), request);
  EXPECT_EQ(plan.total, 200 << 20);
  EXPECT_EQ(plan.spilled, 57'344LL * 32'768 - (200 << 20));
}

TEST(MemoryPlan, FindsTheLongestContextAndTheMostSequences) {
  PlanRequest request = request_of(8'192);
  request.memory = 24LL << 30;
  const ModelShape shape = published_shape("qwen2.5-7b");
  request.weights = find_weight_mix("q4_k_m");
  const int64_t sequences = max_sequences(shape, request);
  request.sequences = sequences;
  EXPECT_LE(plan_memory(shape, request).total, request.memory);
  request.sequences = sequences + 1;
  EXPECT_GT(plan_memory(shape, request).total, request.memory);
  request.sequences = 20;
  const int64_t context = max_context(shape, request);
  request.context = context;
  EXPECT_LE(plan_memory(shape, request).total, request.memory);
  request.context = context + 1;
  EXPECT_GT(plan_memory(shape, request).total, request.memory);
}

TEST(MemoryPlan, NeverNeedsLessForMoreTokens) {
  for (const char* name : {"llama-3.1-8b", "gemma-3-1b", "qwen3-next-80b-a3b"}) {
    const ModelShape shape = published_shape(name);
    for (const kv::KvCodecs codecs : usual_codecs()) {
      for (const int64_t shared : {0, 1'000}) {
        PlanRequest request = request_of(1'100);
        request.kv = codecs;
        request.sequences = 100;
        request.shared = shared;
        int64_t before = 0;
        for (; request.context < 2'000; ++request.context) {
          const int64_t total = plan_memory(shape, request).total;
          EXPECT_GE(total, before) << name << " " << kv::name(codecs) << " " << request.context;
          before = total;
        }
      }
    }
  }
}

TEST(MemoryPlan, NeverGoesBeyondTheTrainedContext) {
  const ModelShape shape = published_shape("smollm2-135m");
  EXPECT_EQ(max_context(shape, request_of(100)), 8'192);
}

TEST(MemoryPlan, SaysZeroWhenNothingFits) {
  PlanRequest request = request_of(100);
  request.memory = 1 << 20;
  const ModelShape shape = published_shape("qwen2.5-7b");
  EXPECT_EQ(max_context(shape, request), 0);
  EXPECT_EQ(max_sequences(shape, request), 0);
  EXPECT_THAT(cheapest_changes(shape, request), ::testing::Contains(HasSubstr("makes it fit")));
}

TEST(MemoryPlan, RefusesImpossibleRequests) {
  PlanRequest request = request_of(100);
  request.mean_context = 101;
  EXPECT_THAT(check_request(request).error().message, HasSubstr("--mean-context 101"));
  request.mean_context = 50;
  request.shared = 51;
  EXPECT_THAT(check_request(request).error().message, HasSubstr("--shared 51"));
  request.shared = 0;
  request.sequences = kMaxSequences;
  request.beams = 2;
  EXPECT_THAT(check_request(request).error().message, HasSubstr("sequences"));
}

TEST(WhatIf, NamesTheLeastHarmfulChangesFirst) {
  PlanRequest request = request_of(8'192);
  request.sequences = 50;
  request.memory = 24LL << 30;
  request.weights = find_weight_mix("q4_k_m");
  const ModelShape shape = published_shape("qwen2.5-7b");
  const auto changes = cheapest_changes(shape, request);
  ASSERT_GE(changes.size(), 3u);
  EXPECT_THAT(changes.front(), HasSubstr("--kv q8 fits"));
  EXPECT_THAT(changes.front(), HasSubstr("KL 9.6e-06"));
  EXPECT_THAT(changes, ::testing::Contains(HasSubstr("--sequences 4")));
  request.memory = 240LL << 30;
  EXPECT_TRUE(cheapest_changes(shape, request).empty());
}

TEST(WhatIf, ComparesCodecsAndWeights) {
  const ModelShape shape = published_shape("llama-3.1-8b");
  const auto codecs = by_codec(shape, request_of(8'192));
  ASSERT_EQ(codecs.size(), usual_codecs().size());
  for (size_t i = 1; i < codecs.size(); ++i) {
    EXPECT_LT(codecs[i].plan.kv_used, codecs[i - 1].plan.kv_used) << codecs[i].name;
    EXPECT_GE(codecs[i].kl, codecs[i - 1].kl) << codecs[i].name;
  }
  EXPECT_EQ(by_weights(shape, request_of(8'192)).size(), weight_mixes().size());
}

TEST(Chart, DrawsALineForEveryCodecAndTheLimit) {
  PlanRequest request = request_of(8'192);
  request.memory = 24LL << 30;
  const std::string svg = memory_chart(published_shape("llama-3.1-8b"), request);
  EXPECT_THAT(svg, HasSubstr("<svg "));
  EXPECT_THAT(svg, HasSubstr("limit 24.0 GiB"));
  for (const char* codec : {">f32<", ">f16<", ">q8<", ">q6/q4<", ">q4<"}) {
    EXPECT_THAT(svg, HasSubstr(codec));
  }
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace quire::plan
