// Who holds the pages of a store.
#include <gtest/gtest.h>

#include "kv/kv_store.h"
#include "kv/token_sequences.h"

namespace quire::kv {
namespace {

std::unique_ptr<KvStore> store_of(std::vector<LayerKv> layers, KvCodecs codecs, int64_t pages) {
  return KvStore::create(KvGeometry::create(layers, codecs).value(),
                         {.budget_bytes = pages * kPageAlignment,
                          .prefix = {.budget_bytes = pages * kPageAlignment}})
      .value();
}

TEST(PageCounts, CountEachPageOnceForSequencesAndForTheTree) {
  const auto store = store_of({{1, 4, 0}}, {}, 10);
  EXPECT_EQ(store->count_pages().free, 10);
  TokenSequence first{store->create_sequence(), {}};
  ASSERT_TRUE(append(*store, first, counting(150)));
  EXPECT_EQ(store->count_pages().held_by_sequences, 3);
  EXPECT_EQ(store->count_pages().held_by_tree, 0);

  store->publish({}, first.cached, first.tokens, PublishTail::kShare);
  const KvSequence twin = store->fork(first.cached);
  PageCounts counts = store->count_pages();
  EXPECT_EQ(counts.held_by_sequences, 3);
  EXPECT_EQ(counts.held_by_tree, 3);
  EXPECT_EQ(counts.pinned, 3);
  EXPECT_EQ(counts.held(), 3);
  EXPECT_EQ(counts.total(), 10);
  EXPECT_EQ(counts.sequence_bytes, 3 * kPageAlignment);

  ASSERT_TRUE(append(*store, first, counting(50, 500)));  // copies the last page, and needs another
  counts = store->count_pages();
  EXPECT_EQ(counts.held_by_sequences, 5);
  EXPECT_EQ(counts.pinned, 3);
  EXPECT_EQ(counts.pinned_bytes, 3 * kPageAlignment);
  EXPECT_EQ(counts.free, 5);
}

TEST(PageCounts, AreZeroForSequencesWhenAllHaveEnded) {
  const auto store = store_of({{1, 4, 0}, {1, 4, 70}}, {Codec::Q8, Codec::Q4}, 60);
  {
    TokenSequence seq{store->create_sequence(), {}};
    ASSERT_TRUE(append(*store, seq, counting(300)));
    EXPECT_GT(store->count_pages().held_by_sequences, 5);
    store->publish({}, seq.cached, seq.tokens, PublishTail::kShare);
  }
  const PageCounts counts = store->count_pages();
  EXPECT_EQ(counts.held_by_sequences, 0);
  EXPECT_EQ(counts.sequence_bytes, 0);
  EXPECT_EQ(counts.pinned, 0);
  EXPECT_GT(counts.held_by_tree, 0);
  EXPECT_EQ(counts.tree_bytes, store->stats().bytes_prefix);
  store->forget_prefixes();
  EXPECT_EQ(store->count_pages().held(), 0);
}

}  // namespace
}  // namespace quire::kv
