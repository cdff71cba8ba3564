#include "kv/identity_key.h"

#include <gtest/gtest.h>

#include <functional>

#include "kv/kv_store.h"
#include "kv/token_sequences.h"

namespace quire::kv {
namespace {

struct Change {
  std::string field;
  std::function<void(IdentityKey&)> apply;
};

/// Every field of the key.
std::vector<Change> changes() {
  const auto digest = [](uint64_t low) { return LazyDigest([low] { return Digest{low, 0}; }); };
  return {{"weights", [=](IdentityKey& k) { k.weights = digest(7); }},
          {"geometry", [](IdentityKey& k) { k.layers[0].head_dim = 8; }},
          {"geometry",
           [](IdentityKey& k) {
             k.layers.push_back({1, 4, 0});
           }},
          {"window", [](IdentityKey& k) { k.layers[0].window_tokens = 100; }},
          {"sinks", [](IdentityKey& k) { k.layers[0].sink_tokens = 4; }},
          {"rope",
           [](IdentityKey& k) {
             k.rope = {1, 2};
           }},
          {"rope_table", [=](IdentityKey& k) { k.rope_table = digest(9); }},
          {"adapters",
           [](IdentityKey& k) {
             k.adapters.push_back({3, 4});
           }},
          {"kv", [](IdentityKey& k) { k.codecs.v = Codec::F32; }},
          {"activations", [](IdentityKey& k) { k.activations = 1; }},
          {"page_layout", [](IdentityKey& k) { ++k.page_layout; }},
          {"numeric_path", [](IdentityKey& k) { ++k.numeric_path; }},
          {"namespace", [](IdentityKey& k) { k.tenant = "another"; }},
          {"salt", [](IdentityKey& k) { k.salt = "another"; }}};
}

IdentityKey some_key() {
  IdentityKey key;
  key.layers = {{1, 4, 0}};
  return key;
}

std::unique_ptr<KvStore> some_store() {
  auto geometry = KvGeometry::create(std::vector<LayerKv>{{1, 4, 0}}, {}).value();
  return KvStore::create(std::move(geometry), {.budget_bytes = 40 * kPageAlignment}).value();
}

TEST(IdentityKey, EveryFieldTellsKeysApartAndIsNamed) {
  const IdentityKey key = some_key();
  EXPECT_EQ(first_difference(key, some_key()), std::nullopt);
  for (const Change& change : changes()) {
    IdentityKey other = some_key();
    change.apply(other);
    EXPECT_EQ(first_difference(key, other), change.field);
    EXPECT_NE(fingerprint(key), fingerprint(other)) << change.field;
  }
  EXPECT_EQ(fingerprint(key), fingerprint(some_key()));
}

TEST(IdentityKey, TextsCannotTradeCharacters) {
  IdentityKey a = some_key();
  IdentityKey b = some_key();
  a.tenant = "ab";
  a.salt = "c";
  b.tenant = "a";
  b.salt = "bc";
  EXPECT_NE(fingerprint(a), fingerprint(b));
  EXPECT_NE(chain_seed(a), chain_seed(b));
}

TEST(IdentityKey, DigestsNothingUntilItMust) {
  int computed = 0;
  IdentityKey key = some_key();
  key.weights = LazyDigest([&] {
    ++computed;
    return Digest{1, 2};
  });
  const IdentityKey copy = key;
  EXPECT_EQ(first_difference(key, copy), std::nullopt);
  IdentityKey tenant = key;
  tenant.tenant = "another";
  EXPECT_EQ(first_difference(key, tenant), "namespace");
  EXPECT_EQ(computed, 0);
  EXPECT_FALSE(key.weights.is_computed());
  EXPECT_EQ(fingerprint(key), fingerprint(copy));
  EXPECT_EQ(computed, 1);
  EXPECT_TRUE(copy.weights.is_computed());
}

TEST(IdentityKey, PagesServeOnlyTheirOwnKey) {
  for (const Change& change : changes()) {
    const auto store = some_store();
    IdentityKey other = some_key();
    change.apply(other);
    ASSERT_EQ(run(*store, some_key(), counting(100)), 0);
    EXPECT_EQ(store->match(other, counting(100)).tokens, 0) << change.field;
    EXPECT_EQ(store->match(some_key(), counting(100)).tokens, 99);
    store->check();
  }
}

TEST(IdentityKey, AMissNamesTheFieldButNeverAnotherTenant) {
  for (const Change& change : changes()) {
    const auto store = some_store();
    IdentityKey other = some_key();
    change.apply(other);
    ASSERT_EQ(run(*store, other, counting(100)), 0);
    const auto miss = store->match(some_key(), counting(100)).miss;
    ASSERT_TRUE(miss.has_value());
    if (change.field == "namespace" || change.field == "salt") {
      EXPECT_EQ(miss->reason, MissReason::kCold) << change.field;
      store->forget_prefixes();
      EXPECT_EQ(store->match(some_key(), counting(100)).miss->reason, MissReason::kCold);
    } else {
      EXPECT_EQ(miss->reason, MissReason::kKeyDiffers) << change.field;
      EXPECT_EQ(miss->key_field, change.field);
    }
    EXPECT_EQ(miss->cost_tokens, 100);
  }
}

TEST(IdentityKey, TwoKeysKeepTheSameTokensApart) {
  const auto store = some_store();
  IdentityKey salted = some_key();
  salted.salt = "mine";
  ASSERT_EQ(run(*store, some_key(), counting(100)), 0);
  ASSERT_EQ(run(*store, salted, counting(100)), 0);
  EXPECT_EQ(store->stats().groups[0].pages_held, 4);
  EXPECT_EQ(store->match(salted, counting(100)).tokens, 99);
  store->check();
}

}  // namespace
}  // namespace quire::kv
