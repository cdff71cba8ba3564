#include "kv/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/kv_store.h"
#include "kv/token_sequences.h"

namespace quire::kv {
namespace {

constexpr int32_t kWindow = 100;

KvGeometry global_geometry() {
  return KvGeometry::create(std::vector<LayerKv>{{1, 4, 0}}, {}).value();
}

KvGeometry hybrid_geometry() {
  return KvGeometry::create(std::vector<LayerKv>{{1, 4, 0}, {1, 4, kWindow}}, {}).value();
}

std::unique_ptr<KvStore> store_of(KvGeometry geometry, int64_t pages,
                                  PrefixTreeOptions prefix = {}) {
  return KvStore::create(std::move(geometry),
                         {.budget_bytes = pages * kPageAlignment, .prefix = prefix})
      .value();
}

class PrefixTreeOfGlobalLayers : public testing::Test {
 protected:
  ~PrefixTreeOfGlobalLayers() override { store_->check(); }

  std::unique_ptr<KvStore> store_ = store_of(global_geometry(), 40);
  IdentityKey key_;
};

TEST_F(PrefixTreeOfGlobalLayers, FindsWhatWasPublishedButNeverTheLastToken) {
  const Tokens tokens = counting(150);
  ASSERT_EQ(run(*store_, key_, tokens), 0);

  const PrefixMatch match = store_->match(key_, tokens);
  EXPECT_EQ(match.tokens, 149);
  EXPECT_FALSE(match.miss.has_value());
  const TokenSequence again{store_->adopt(match), first_of(tokens, 149)};
  EXPECT_EQ(find_wrong_row(*store_, again), std::nullopt);
}

TEST_F(PrefixTreeOfGlobalLayers, GoesOnFromTheLongestKnownPrefixWithEqualRows) {
  ASSERT_EQ(run(*store_, key_, counting(150)), 0);
  for (const int64_t at : {1, 63, 64, 65, 128, 149}) {
    const Tokens branch = first_of(counting(150), at) + counting(30, 1000);
    TokenSequence seq = resume(*store_, key_, branch);
    ASSERT_EQ(static_cast<int64_t>(seq.tokens.size()), at);
    ASSERT_TRUE(append(*store_, seq, counting(30, 1000)));
    EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt) << at;
    store_->check();
  }
  TokenSequence whole = resume(*store_, key_, counting(151));
  EXPECT_EQ(whole.tokens.size(), 150u);
  EXPECT_EQ(find_wrong_row(*store_, whole), std::nullopt);
}

TEST_F(PrefixTreeOfGlobalLayers, ASequenceGoesOnBesideItsPublishedTail) {
  TokenSequence seq{store_->create_sequence(), {}};
  ASSERT_TRUE(append(*store_, seq, counting(70)));
  store_->publish(key_, seq.cached, seq.tokens, PublishTail::kShare);
  ASSERT_TRUE(append(*store_, seq, counting(20, 500)));
  EXPECT_EQ(store_->stats().pages_copied, 1);

  TokenSequence other = resume(*store_, key_, counting(90));
  EXPECT_EQ(other.tokens.size(), 70u);
  EXPECT_EQ(find_wrong_row(*store_, other), std::nullopt);
  EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt);
}

TEST_F(PrefixTreeOfGlobalLayers, LeavesATailThatIsStillWrittenToItsSequence) {
  TokenSequence seq{store_->create_sequence(), {}};
  ASSERT_TRUE(append(*store_, seq, counting(70)));
  store_->publish(key_, seq.cached, seq.tokens, PublishTail::kLeave);
  ASSERT_TRUE(append(*store_, seq, counting(20, 70)));
  EXPECT_EQ(store_->stats().pages_copied, 0);
  EXPECT_EQ(store_->match(key_, counting(90)).tokens, 64);
}

TEST_F(PrefixTreeOfGlobalLayers, GeneratedTokensJoinAndAShorterTailGrows) {
  TokenSequence seq{store_->create_sequence(), {}};
  ASSERT_TRUE(append(*store_, seq, counting(70)));
  store_->publish(key_, seq.cached, seq.tokens, PublishTail::kShare);
  for (int32_t i = 70; i < 140; ++i) {
    ASSERT_TRUE(append(*store_, seq, {{i}}));
    store_->publish(key_, seq.cached, seq.tokens, PublishTail::kShare);
    store_->check();
  }
  EXPECT_EQ(store_->match(key_, counting(200)).tokens, 140);
  EXPECT_EQ(store_->stats().prefix_nodes, 3);
  EXPECT_EQ(store_->stats().groups[0].pages_held, 3);
}

TEST_F(PrefixTreeOfGlobalLayers, KeepsOneCopyOfABlockThatTwoSequencesComputed) {
  TokenSequence first{store_->create_sequence(), {}};
  TokenSequence second{store_->create_sequence(), {}};
  ASSERT_TRUE(append(*store_, first, counting(128)));
  ASSERT_TRUE(append(*store_, second, counting(128)));
  EXPECT_EQ(store_->stats().groups[0].pages_held, 4);

  store_->publish(key_, first.cached, first.tokens, PublishTail::kShare);
  store_->publish(key_, second.cached, second.tokens, PublishTail::kShare);
  EXPECT_EQ(store_->stats().groups[0].pages_held, 2);
  ASSERT_TRUE(append(*store_, second, counting(10, 300)));
  EXPECT_EQ(find_wrong_row(*store_, first), std::nullopt);
  EXPECT_EQ(find_wrong_row(*store_, second), std::nullopt);
}

TEST_F(PrefixTreeOfGlobalLayers, EightBranchesStoreTheirPrefixOnceAndAPartialPageEach) {
  const Tokens prefix = counting(5 * 64 + 20);
  ASSERT_EQ(run(*store_, key_, prefix + counting(1, 900)), 0);
  std::vector<TokenSequence> branches;
  for (int32_t i = 0; i < 8; ++i) {
    const Tokens question = counting(10, 1000 + 100 * i);
    branches.push_back(resume(*store_, key_, prefix + question));
    ASSERT_EQ(branches.back().tokens, prefix);
    ASSERT_TRUE(append(*store_, branches.back(), question));
  }
  // Five full pages and the published partial one, and one copy of that for each branch.
  EXPECT_EQ(store_->stats().groups[0].pages_held, 6 + 8);
  for (const TokenSequence& branch : branches) {
    EXPECT_EQ(find_wrong_row(*store_, branch), std::nullopt);
  }
}

TEST_F(PrefixTreeOfGlobalLayers, SaysWhichTokenDiffers) {
  ASSERT_EQ(run(*store_, key_, counting(150)), 0);
  const Tokens asked = first_of(counting(150), 100) + counting(20, 700);
  const PrefixMatch match = store_->match(key_, asked);
  ASSERT_TRUE(match.miss.has_value());
  EXPECT_EQ(match.miss->reason, MissReason::kTokenDiffers);
  EXPECT_EQ(match.miss->token_index, 100);
  EXPECT_EQ(match.miss->expected, TokenId{100});
  EXPECT_EQ(match.miss->got, TokenId{700});
  EXPECT_EQ(match.miss->cost_tokens, 20);
}

TEST_F(PrefixTreeOfGlobalLayers, SaysColdWhereNothingIsKnown) {
  const PrefixMatch nothing = store_->match(key_, counting(50));
  ASSERT_TRUE(nothing.miss.has_value());
  EXPECT_EQ(nothing.miss->reason, MissReason::kCold);
  EXPECT_EQ(nothing.miss->token_index, 0);
  EXPECT_EQ(nothing.miss->cost_tokens, 50);

  ASSERT_EQ(run(*store_, key_, counting(50)), 0);
  const PrefixMatch longer = store_->match(key_, counting(80));
  ASSERT_TRUE(longer.miss.has_value());
  EXPECT_EQ(longer.miss->reason, MissReason::kCold);
  EXPECT_EQ(longer.miss->token_index, 50);
  EXPECT_EQ(longer.miss->cost_tokens, 30);
}

TEST_F(PrefixTreeOfGlobalLayers, SaysThatAPageWasEvicted) {
  ASSERT_EQ(run(*store_, key_, counting(150)), 0);
  store_->forget_prefixes();
  EXPECT_EQ(store_->stats().bytes_held, 0);
  const PrefixMatch match = store_->match(key_, counting(150));
  EXPECT_EQ(match.tokens, 0);
  ASSERT_TRUE(match.miss.has_value());
  EXPECT_EQ(match.miss->reason, MissReason::kEvicted);
  EXPECT_EQ(match.miss->cost_tokens, 150);
}

TEST_F(PrefixTreeOfGlobalLayers, NothingIsFoundForNoTokenOrOne) {
  ASSERT_EQ(run(*store_, key_, counting(3)), 0);
  EXPECT_EQ(store_->match(key_, {}).tokens, 0);
  const PrefixMatch one = store_->match(key_, counting(1));
  EXPECT_EQ(one.tokens, 0);
  EXPECT_FALSE(one.miss.has_value());
  EXPECT_EQ(resume(*store_, key_, counting(1)).tokens.size(), 0u);
}

TEST_F(PrefixTreeOfGlobalLayers, EvictsTheLeastRecentlyUsedLeafFirst) {
  ASSERT_EQ(run(*store_, key_, counting(64) + counting(64, 100)), 0);
  ASSERT_EQ(run(*store_, key_, counting(64) + counting(64, 200)), 64);
  ASSERT_EQ(store_->match(key_, counting(64) + counting(65, 100)).tokens, 128);  // used again
  // 40 pages, 3 of them in the tree: 38 more have room for one leaf less.
  TokenSequence big{store_->create_sequence(), {}};
  ASSERT_TRUE(append(*store_, big, counting(38 * 64, 5000)));
  EXPECT_EQ(store_->match(key_, counting(64) + counting(65, 100)).tokens, 128);
  EXPECT_EQ(store_->match(key_, counting(64) + counting(65, 200)).tokens, 64);
}

TEST_F(PrefixTreeOfGlobalLayers, MakesRoomBeforeItRefuses) {
  ASSERT_EQ(run(*store_, key_, counting(40 * 64)), 0);
  TokenSequence seq{store_->create_sequence(), {}};
  EXPECT_TRUE(append(*store_, seq, counting(40 * 64, 5000)));
  EXPECT_EQ(store_->stats().prefix_evicted, 40);
  EXPECT_EQ(store_->stats().bytes_prefix, 0);
  EXPECT_FALSE(store_->reserve(seq.cached, 1).ok());
}

TEST_F(PrefixTreeOfGlobalLayers, GivesUpASharedTailForWhichThereIsNoRoomToCopy) {
  TokenSequence seq{store_->create_sequence(), {}};
  ASSERT_TRUE(append(*store_, seq, counting(39 * 64 + 10)));
  store_->publish(key_, seq.cached, seq.tokens, PublishTail::kShare);
  // All 40 pages are held: without eviction the copy of the last would need a 41st.
  ASSERT_TRUE(append(*store_, seq, counting(20, 9000)));
  EXPECT_EQ(store_->stats().pages_copied, 0);
  EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt);
}

TEST_F(PrefixTreeOfGlobalLayers, NeverEvictsWhatIsPinned) {
  ASSERT_EQ(run(*store_, key_, counting(150)), 0);
  PrefixMatch match = store_->match(key_, counting(100));
  store_->forget_prefixes();
  EXPECT_EQ(store_->stats().groups[0].pages_held, 2);
  const TokenSequence seq{store_->adopt(match), counting(99)};
  EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt);

  PrefixPin moved = std::move(match.pin);
  store_->forget_prefixes();
  EXPECT_EQ(store_->stats().bytes_prefix, 2 * kPageAlignment);
  moved.reset();
  store_->forget_prefixes();
  EXPECT_EQ(store_->stats().bytes_prefix, 0);
  EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt);
}

TEST(PrefixTree, StaysWithinItsBudget) {
  const auto store = store_of(global_geometry(), 40, {.budget_bytes = 3 * kPageAlignment});
  const IdentityKey key;
  ASSERT_EQ(run(*store, key, counting(64 * 5)), 0);
  EXPECT_EQ(store->stats().bytes_prefix, 3 * kPageAlignment);
  // The leaves went: what is left is the beginning.
  EXPECT_EQ(store->match(key, counting(64 * 5)).tokens, 64 * 3);
  ASSERT_EQ(run(*store, key, counting(64 * 2, 7000)), 0);
  EXPECT_EQ(store->stats().bytes_prefix, 3 * kPageAlignment);
  EXPECT_EQ(store->match(key, counting(64 * 2, 7000)).tokens, 64 * 2 - 1);
  store->check();
}

TEST(PrefixTree, AnswersRightWhenHashesCollide) {
  const auto store = store_of(global_geometry(), 4000, {.hash_bits = 8});
  const IdentityKey key;
  std::vector<Tokens> texts;
  for (int32_t i = 0; i < 600; ++i) texts.push_back(counting(70, 1000 * i));
  for (const Tokens& text : texts) {
    ASSERT_EQ(run(*store, key, text), 0);
  }
  for (const Tokens& text : texts) {
    const TokenSequence seq = resume(*store, key, text);
    ASSERT_EQ(seq.tokens.size(), 69u);
    ASSERT_EQ(find_wrong_row(*store, seq), std::nullopt);
  }
  EXPECT_GT(store->stats().prefix_collisions, 100);
  store->check();
}

class PrefixTreeOfHybridLayers : public testing::Test {
 protected:
  ~PrefixTreeOfHybridLayers() override { store_->check(); }

  std::unique_ptr<KvStore> store_ = store_of(hybrid_geometry(), 80);
  IdentityKey key_;
};

TEST_F(PrefixTreeOfHybridLayers, MatchesWhereTheWindowPagesAre) {
  ASSERT_EQ(run(*store_, key_, counting(500)), 0);
  TokenSequence seq = resume(*store_, key_, counting(600));
  EXPECT_EQ(seq.tokens.size(), 500u);
  EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt);
  TokenSequence same = resume(*store_, key_, counting(500));
  EXPECT_EQ(same.tokens.size(), 499u);
  EXPECT_EQ(find_wrong_row(*store_, same), std::nullopt);
}

TEST_F(PrefixTreeOfHybridLayers, ABranchFromTheMiddleNamesTheMissingWindowPage) {
  ASSERT_EQ(run(*store_, key_, counting(500)), 0);
  const PrefixMatch match = store_->match(key_, first_of(counting(500), 300) + counting(10, 900));
  // At 300 the pages of positions 201 to 299 are gone from the window layers.
  EXPECT_EQ(match.tokens, 0);
  ASSERT_TRUE(match.miss.has_value());
  EXPECT_EQ(match.miss->reason, MissReason::kWindowPageGone);
  EXPECT_EQ(match.miss->token_index, 0);
  EXPECT_EQ(match.miss->cost_tokens, 310);
}

TEST_F(PrefixTreeOfHybridLayers, ABranchFallsBackToTheLastResumePoint) {
  TokenSequence seq{store_->create_sequence(), {}};
  for (int32_t turn = 0; turn < 5; ++turn) {
    ASSERT_TRUE(append(*store_, seq, counting(150, 150 * turn)));
    store_->publish(key_, seq.cached, seq.tokens, PublishTail::kShare);
  }
  for (const int64_t at : {301, 320, 418}) {  // resume points: 300 and 450
    const Tokens branch = first_of(seq.tokens, at) + counting(40, 9000);
    TokenSequence resumed = resume(*store_, key_, branch);
    ASSERT_EQ(resumed.tokens.size(), 300u);
    ASSERT_TRUE(append(*store_, resumed, {branch.begin() + 300, branch.end()}));
    EXPECT_EQ(find_wrong_row(*store_, resumed), std::nullopt) << at;
    store_->check();
  }
  // The first page of those kept at 450 begins at 320, which a query at 419 sees first.
  EXPECT_EQ(resume(*store_, key_, first_of(seq.tokens, 419) + counting(1, 9000)).tokens.size(),
            419u);
}

TEST_F(PrefixTreeOfHybridLayers, AWindowPageIsEvictedByItselfAndThenNamed) {
  ASSERT_EQ(run(*store_, key_, counting(256)), 0);
  ASSERT_EQ(run(*store_, key_, counting(512)), 256);
  // Eight global pages, and two window pages at either resume point.
  ASSERT_EQ(store_->stats().bytes_prefix, 12 * kPageAlignment);
  TokenSequence big{store_->create_sequence(), {}};
  ASSERT_TRUE(store_->reserve(big.cached, 34 * 64 + 1).ok());  // 70 pages where 68 are free
  EXPECT_EQ(store_->stats().prefix_evicted, 2);

  const PrefixMatch match = store_->match(key_, counting(257));
  EXPECT_EQ(match.tokens, 0);
  ASSERT_TRUE(match.miss.has_value());
  EXPECT_EQ(match.miss->reason, MissReason::kWindowPageGone);
  EXPECT_EQ(store_->match(key_, counting(513)).tokens, 512);
}

TEST_F(PrefixTreeOfHybridLayers, APinKeepsTheWindowPagesOfItsMatch) {
  ASSERT_EQ(run(*store_, key_, counting(500)), 0);
  const PrefixMatch match = store_->match(key_, counting(501));
  ASSERT_EQ(match.tokens, 500);
  store_->forget_prefixes();
  const TokenSequence seq{store_->adopt(match), counting(500)};
  EXPECT_EQ(find_wrong_row(*store_, seq), std::nullopt);
}

TEST(PrefixTree, WindowsAloneShareWhatTheyStillHold) {
  const auto geometry = KvGeometry::create(std::vector<LayerKv>{{1, 4, kWindow}}, {}).value();
  const auto store = store_of(geometry, 40);
  const IdentityKey key;
  ASSERT_EQ(run(*store, key, counting(700)), 0);
  EXPECT_EQ(store->stats().groups[0].pages_held, 2);
  TokenSequence seq = resume(*store, key, counting(800));
  EXPECT_EQ(seq.tokens.size(), 700u);
  EXPECT_EQ(find_wrong_row(*store, seq), std::nullopt);
  seq.cached.reset();
  store->forget_prefixes();
  EXPECT_EQ(store->stats().prefix_nodes, 0);
  store->check();
}

TEST(PrefixTree, AWindowOfOneTokenNeedsNoPages) {
  const auto geometry = KvGeometry::create(std::vector<LayerKv>{{1, 4, 0}, {1, 4, 1}}, {}).value();
  const auto store = store_of(geometry, 40);
  const IdentityKey key;
  ASSERT_EQ(run(*store, key, counting(200)), 0);
  for (const int64_t at : {1, 64, 100, 128, 199}) {
    TokenSequence seq = resume(*store, key, first_of(counting(200), at) + counting(5, 800));
    ASSERT_EQ(static_cast<int64_t>(seq.tokens.size()), at);
    ASSERT_TRUE(append(*store, seq, counting(70, 800)));
    EXPECT_EQ(find_wrong_row(*store, seq), std::nullopt) << at;
    store->check();
  }
}

}  // namespace
}  // namespace quire::kv
