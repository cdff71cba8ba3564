#include "engine/identity.h"

#include <gtest/gtest.h>

#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

const std::string kTiny = QUIRE_TEST_DATA "/tiny/";

TEST(IdentityOfAnEngine, DigestsWeightsAndRotationOnlyWhenAsked) {
  const auto model = load_or_die(kTiny + "llama_tied");
  const kv::IdentityKey key = identity_key(*model, {});
  const kv::IdentityKey same = key;
  EXPECT_EQ(kv::first_difference(key, same), std::nullopt);
  EXPECT_FALSE(key.weights.is_computed());
  EXPECT_FALSE(key.rope_table.is_computed());
  EXPECT_NE(kv::fingerprint(key), Digest{});
  EXPECT_TRUE(same.weights.is_computed());
}

TEST(IdentityOfAnEngine, IsTheSameForTheSameModelLoadedTwice) {
  const auto one = load_or_die(kTiny + "gemma3");
  const auto two = load_or_die(kTiny + "gemma3");
  EXPECT_EQ(kv::first_difference(identity_key(*one, {}), identity_key(*two, {})), std::nullopt);
  EXPECT_EQ(kv::fingerprint(identity_key(*one, {})), kv::fingerprint(identity_key(*two, {})));
}

TEST(IdentityOfAnEngine, TellsEveryTinyModelFromEveryOther) {
  std::vector<std::pair<std::string, Digest>> seen;
  for (const TinyModel& tiny : tiny_models()) {
    const auto model = load_or_die(tiny.path);
    const Digest digest = kv::fingerprint(identity_key(*model, {}));
    for (const auto& [name, other] : seen) EXPECT_NE(digest, other) << tiny.name << ", " << name;
    seen.emplace_back(tiny.name, digest);
  }
}

TEST(IdentityOfAnEngine, FollowsTheNumericPolicyAndNothingElse) {
  const auto model = load_or_die(kTiny + "llama_tied");
  const kv::IdentityKey plain = identity_key(*model, {});
  EngineOptions options;
  options.threads = 7;
  options.prefill_chunk = 3;
  options.isa = "scalar";
  options.cache = CacheKind::kStatic;
  EXPECT_EQ(kv::first_difference(plain, identity_key(*model, options)), std::nullopt);

  EngineOptions codec;
  codec.kv = {kv::Codec::F32, kv::Codec::F16};
  EXPECT_EQ(kv::first_difference(plain, identity_key(*model, codec)), "kv");
  EngineOptions activations;
  activations.activations = kernels::ActivationPolicy::kF32;
  EXPECT_EQ(kv::first_difference(plain, identity_key(*model, activations)), "activations");
  EngineOptions sliding;
  sliding.cache.sliding = SlidingWindow{.window_tokens = 40, .sink_tokens = 4};
  EXPECT_EQ(kv::first_difference(plain, identity_key(*model, sliding)), "window");
  EngineOptions more_sinks = sliding;
  more_sinks.cache.sliding->sink_tokens = 8;
  EXPECT_EQ(kv::first_difference(identity_key(*model, sliding), identity_key(*model, more_sinks)),
            "sinks");
}

}  // namespace
}  // namespace quire::engine
