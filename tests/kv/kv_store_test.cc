#include "kv/kv_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kv/row_io.h"

namespace quire::kv {
namespace {

constexpr int64_t kPage = kPageAlignment;  // one page of the tiny groups below
constexpr int32_t kWindow = 100;

KvGeometry global_geometry() {
  return KvGeometry::create(std::vector<LayerKv>{{1, 4, 0}}, {}).value();
}

KvGeometry hybrid_geometry() {
  return KvGeometry::create(std::vector<LayerKv>{{1, 4, 0}, {1, 4, kWindow}}, {}).value();
}

std::unique_ptr<KvStore> store_of(KvGeometry geometry, int64_t pages) {
  return KvStore::create(std::move(geometry), {.budget_bytes = pages * kPage}).value();
}

/// Reserves, fills with `value` and commits.
void append(KvStore& store, const KvSequence& seq, int64_t tokens, int value = 1) {
  ASSERT_TRUE(store.reserve(seq, tokens).ok());
  const auto groups = static_cast<int32_t>(store.geometry().groups().size());
  for (int32_t g = 0; g < groups; ++g) {
    const auto view = store.view(seq, g);
    const Row row(static_cast<size_t>(store.geometry().groups()[size_t(g)].bytes_per_token()),
                  std::byte(value));
    for (int64_t p = store.length(seq); p < store.length(seq) + tokens; ++p) {
      write_row(view.shape, *find_span(view, p), p, row);
    }
  }
  store.commit(seq, tokens);
}

/// The byte at `position`, if all of the row's bytes are equal to it.
int value_at(const KvStore& store, const KvSequence& seq, int64_t position, int32_t group = 0) {
  const auto view = store.view(seq, group);
  const auto* span = find_span(view, position);
  if (span == nullptr) return -1;
  const auto value = static_cast<int>(span->page[(position - span->logical_base) * 2]);
  const Row row(static_cast<size_t>(store.geometry().groups()[size_t(group)].bytes_per_token()),
                std::byte(value));
  return holds_row(view.shape, *span, position, row) ? value : -2;
}

TEST(KvStore, ShowsReservedSlotsToWriteAndKeepsThemOnCommit) {
  const auto store = store_of(global_geometry(), 10);
  const KvSequence seq = store->create_sequence();

  ASSERT_TRUE(store->reserve(seq, 70).ok());
  EXPECT_EQ(store->length(seq), 0);
  EXPECT_EQ(store->reserved(seq), 70);
  const auto view = store->view(seq, 0);
  ASSERT_EQ(view.pages.size(), 2u);
  EXPECT_EQ(view.pages[0].end, 64);
  EXPECT_EQ(view.pages[1].end, 6);
  EXPECT_EQ(view.pages[1].logical_base, 64);
  EXPECT_EQ(view.pages[1].stored_base, 64);

  store->commit(seq, 65);
  EXPECT_EQ(store->length(seq), 65);
  EXPECT_EQ(store->reserved(seq), 5);
  store->check();
}

TEST(KvStore, CountsWhatWasReservedBefore) {
  const auto store = store_of(global_geometry(), 1);
  const KvSequence seq = store->create_sequence();
  ASSERT_TRUE(store->reserve(seq, 30).ok());
  ASSERT_TRUE(store->reserve(seq, 64).ok());
  ASSERT_TRUE(store->reserve(seq, 10).ok());
  EXPECT_EQ(store->reserved(seq), 64);
  EXPECT_EQ(store->stats().groups[0].pages_held, 1);
  store->check();
}

TEST(KvStore, HandsOutPagesOfZeroesEvenAfterUse) {
  const auto store = store_of(global_geometry(), 1);
  KvSequence seq = store->create_sequence();
  append(*store, seq, 64, 0xFF);
  seq.reset();

  seq = store->create_sequence();
  ASSERT_TRUE(store->reserve(seq, 1).ok());
  const std::vector<std::byte> zeroes(kPage);
  EXPECT_EQ(std::memcmp(store->view(seq, 0).pages[0].page, zeroes.data(), kPage), 0);
}

TEST(KvStore, ReturnsEverythingWhenASequenceDies) {
  const auto store = store_of(hybrid_geometry(), 20);
  {
    const KvSequence first = store->create_sequence();
    append(*store, first, 200);
    const KvSequence second = store->fork(first);
    ASSERT_TRUE(store->reserve(second, 100).ok());
    EXPECT_GT(store->stats().bytes_held, 0);
  }
  const KvStats stats = store->stats();
  EXPECT_EQ(stats.bytes_held, 0);
  EXPECT_EQ(stats.bytes_used, 0);
  EXPECT_EQ(stats.num_sequences, 0);
  store->check();
}

TEST(KvStore, RefusesInOneSentenceWithTheNumbersAndLosesNothing) {
  const auto store = store_of(hybrid_geometry(), 5);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 100, 9);
  const KvStats before = store->stats();

  const auto refused = store->reserve(seq, 100);  // to 200: two more pages in each of two groups
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(refused.error().message,
            "the KV cache has no room for 100 more tokens after 100: they need 4 pages of 16384 "
            "bytes in all, but 4096 of 20480 bytes are free; lower the context, end another "
            "sequence or raise the memory budget");

  EXPECT_EQ(store->length(seq), 100);
  EXPECT_EQ(store->reserved(seq), 0);
  EXPECT_EQ(store->stats().bytes_held, before.bytes_held);
  EXPECT_EQ(value_at(*store, seq, 99, 1), 9);
  store->check();
}

TEST(KvStore, RefusesTheFirstTokenWhenTheBudgetHoldsNoPage) {
  for (const int64_t budget : {int64_t{0}, kPage - 1, 2 * kPage - 1}) {
    const auto store = KvStore::create(hybrid_geometry(), {.budget_bytes = budget}).value();
    const KvSequence seq = store->create_sequence();
    EXPECT_FALSE(store->reserve(seq, 1).ok());
    EXPECT_EQ(store->stats().bytes_held, 0);
    store->check();
  }
}

TEST(KvStore, SaysSoWhenTheSystemRefusesTheAddresses) {
  const auto large = KvGeometry::create(std::vector<LayerKv>{{1 << 10, 1 << 16, 0}}, {}).value();
  const auto refused = KvStore::create(large, {.budget_bytes = INT64_MAX});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.error().message.find("lower the memory budget"), std::string::npos);
}

TEST(KvStore, RefusesPositionsThatItCannotNumber) {
  const auto store = store_of(global_geometry(), 2);
  const KvSequence seq = store->create_sequence();
  for (const int64_t tokens : {kMaxTokens + 1, INT64_MAX}) {
    EXPECT_FALSE(store->plan_reserve(seq, tokens).fits);
    const auto refused = store->reserve(seq, tokens);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("positions"), std::string::npos);
  }
  EXPECT_FALSE(store->reserve(seq, kMaxTokens).ok());
  store->check();
}

TEST(KvStore, PlansAReservationWithoutMakingIt) {
  const auto store = store_of(global_geometry(), 4);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 70);
  const KvSequence twin = store->fork(seq);

  const ReservePlan plan = store->plan_reserve(twin, 128);
  EXPECT_EQ(plan.new_pages, 3);
  EXPECT_EQ(plan.copied_pages, 1);
  EXPECT_EQ(plan.needed_bytes, 3 * kPage);
  EXPECT_EQ(plan.available_bytes, 2 * kPage);
  EXPECT_FALSE(plan.fits);
  EXPECT_TRUE(store->plan_reserve(twin, 58 + 64).fits);
  EXPECT_EQ(store->stats().groups[0].pages_held, 2);
}

TEST(KvStoreFork, SharesPagesUntilSomeoneWrites) {
  const auto store = store_of(global_geometry(), 10);
  const KvSequence first = store->create_sequence();
  append(*store, first, 100, 1);
  const KvSequence second = store->fork(first);
  EXPECT_EQ(store->length(second), 100);
  EXPECT_EQ(store->stats().groups[0].pages_held, 2);

  append(*store, second, 1, 2);
  EXPECT_EQ(store->stats().groups[0].pages_held, 3);
  EXPECT_EQ(store->stats().pages_copied, 1);
  append(*store, first, 1, 3);
  EXPECT_EQ(store->stats().groups[0].pages_held, 3);  // alone on its page by now
  EXPECT_EQ(value_at(*store, first, 100), 3);
  EXPECT_EQ(value_at(*store, second, 100), 2);
  EXPECT_EQ(value_at(*store, second, 99), 1);
  store->check();
}

TEST(KvStoreFork, CopiesNothingAtAPageEnd) {
  const auto store = store_of(global_geometry(), 10);
  const KvSequence first = store->create_sequence();
  append(*store, first, 128);
  const KvSequence second = store->fork(first);
  append(*store, second, 1);
  EXPECT_EQ(store->stats().pages_copied, 0);
  EXPECT_EQ(store->stats().groups[0].pages_held, 3);
}

TEST(KvStoreFork, LeavesTheTwinWholeWhenTheOtherRollsBackAndWritesAnew) {
  const auto store = store_of(global_geometry(), 10);
  const KvSequence first = store->create_sequence();
  append(*store, first, 100, 1);
  const KvSequence second = store->fork(first);

  ASSERT_TRUE(store->truncate(second, 80).ok());
  append(*store, second, 10, 2);
  EXPECT_EQ(value_at(*store, first, 85), 1);
  EXPECT_EQ(value_at(*store, second, 85), 2);
  EXPECT_EQ(value_at(*store, second, 79), 1);
  store->check();
}

TEST(KvStoreFork, EndsTheReservationOfItsSource) {
  const auto store = store_of(global_geometry(), 10);
  const KvSequence first = store->create_sequence();
  append(*store, first, 10);
  ASSERT_TRUE(store->reserve(first, 200).ok());
  const KvSequence second = store->fork(first);
  EXPECT_EQ(store->reserved(first), 0);
  EXPECT_EQ(store->stats().groups[0].pages_held, 1);
  store->check();
}

TEST(KvStoreFork, RefusesTheCopyThatDoesNotFitAndKeepsBoth) {
  const auto store = store_of(global_geometry(), 1);
  const KvSequence first = store->create_sequence();
  append(*store, first, 10, 1);
  KvSequence second = store->fork(first);
  EXPECT_FALSE(store->reserve(second, 1).ok());
  EXPECT_FALSE(store->reserve(first, 1).ok());
  store->check();

  second.reset();
  EXPECT_TRUE(store->reserve(first, 1).ok());
  EXPECT_EQ(value_at(*store, first, 9), 1);
}

TEST(KvStoreWindow, HoldsExactlyTheFormulaAtEveryLength) {
  const auto store = store_of(hybrid_geometry(), 100);
  for (const int64_t chunk : {1, 7, 64, 300}) {
    const KvSequence seq = store->create_sequence();
    while (store->length(seq) < 700) {
      append(*store, seq, chunk);
      const int64_t length = store->length(seq);
      EXPECT_EQ(store->held_bytes(seq), store->geometry().held_bytes(length)) << length;
      EXPECT_EQ(store->used_bytes(seq), store->geometry().used_bytes(length)) << length;
      EXPECT_EQ(store->stats().bytes_used, store->used_bytes(seq));
      EXPECT_EQ(store->stats().bytes_held, store->held_bytes(seq));
      store->check();
    }
  }
}

TEST(KvStoreWindow, NeverPassesItsPeakDuringALongChunkedPrefill) {
  const int64_t chunk = 64;
  const auto store = store_of(hybrid_geometry(), 100);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 35);  // so that windows start in the last slot of a page: the worst case
  while (store->length(seq) < 1'500) append(*store, seq, chunk);
  EXPECT_EQ(store->stats().bytes_peak, store->geometry().peak_bytes(store->length(seq), chunk));
}

TEST(KvStoreWindow, KeepsEveryKeyThatTheNextQuerySees) {
  const auto store = store_of(hybrid_geometry(), 100);
  const KvSequence seq = store->create_sequence();
  for (int i = 0; i < 400; ++i) {
    append(*store, seq, 1, i % 250);
    const int64_t query = store->length(seq);
    for (int64_t key = std::max<int64_t>(0, query - kWindow + 1); key < query; ++key) {
      ASSERT_EQ(value_at(*store, seq, key, 1), key % 250) << key << " for " << query;
    }
  }
  EXPECT_EQ(store->view(seq, 1).window, kWindow);
  EXPECT_EQ(store->view(seq, 0).window, 0);
}

TEST(KvStoreWindow, GoesBackByOneTokenAtEveryLength) {
  const auto store = store_of(hybrid_geometry(), 100);
  const KvSequence seq = store->create_sequence();
  for (int i = 0; i < 300; ++i) {
    append(*store, seq, 1);
    ASSERT_TRUE(store->truncate(seq, store->length(seq) - 1).ok());
    append(*store, seq, 1);
    store->check();
  }
}

TEST(KvStoreWindow, RefusesByNameToRollBackToWhereItsPagesAreGone) {
  const auto store = store_of(hybrid_geometry(), 100);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 400, 5);

  const auto refused = store->truncate(seq, 290);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message,
            "cannot roll the KV cache back from 400 to 290 tokens: the layers with a window of 100 "
            "tokens hold nothing before position 256 any more; prefill again from the start");
  EXPECT_EQ(store->length(seq), 400);
  store->check();

  EXPECT_TRUE(store->truncate(seq, 355).ok());
  EXPECT_EQ(store->length(seq), 355);
  EXPECT_EQ(value_at(*store, seq, 256, 1), 5);
  store->check();
}

TEST(KvStoreWindow, OfOneTokenRollsBackAnywhereAndGoesOn) {
  const auto geometry = KvGeometry::create(std::vector<LayerKv>{{1, 4, 1}}, {}).value();
  for (const int64_t target : {0, 10, 63, 64, 191, 192, 199}) {
    const auto store = store_of(geometry, 10);
    const KvSequence seq = store->create_sequence();
    append(*store, seq, 200);
    ASSERT_TRUE(store->truncate(seq, target).ok());
    store->check();

    append(*store, seq, 70, 4);
    EXPECT_EQ(store->length(seq), target + 70);
    EXPECT_EQ(value_at(*store, seq, target + 69), 4);
    EXPECT_EQ(store->view(seq, 0).pages[0].logical_base % kPageTokens, 0);
    store->check();
  }
}

TEST(KvStoreWindow, StartsAnewWhenItIsRolledBackToNothing) {
  const auto store = store_of(hybrid_geometry(), 100);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 400, 5);
  ASSERT_TRUE(store->truncate(seq, 0).ok());
  EXPECT_EQ(store->stats().bytes_held, 0);
  append(*store, seq, 3, 6);
  EXPECT_EQ(value_at(*store, seq, 0, 1), 6);
  store->check();
}

TEST(KvStoreStatic, RefusesAtCreationWhatDoesNotFit) {
  const KvStoreOptions options{
      .budget_bytes = 9 * kPage,
      .static_reservation = StaticReservation{.tokens = 320, .sequences = 2, .chunk_tokens = 64}};
  const auto refused = KvStore::create(global_geometry(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(refused.error().message,
            "a static KV cache for 2 sequences of 320 tokens needs 20480 bytes each, but the "
            "memory budget is 36864: lower the context or the number of sequences, or raise the "
            "budget");
}

TEST(KvStoreStatic, NeverRefusesTheSequencesThatItWasMadeFor) {
  const StaticReservation fixed{.tokens = 500, .sequences = 2, .chunk_tokens = 90};
  const int64_t budget = 2 * hybrid_geometry().peak_bytes(500, 90);
  const auto store =
      KvStore::create(hybrid_geometry(), {.budget_bytes = budget, .static_reservation = fixed})
          .value();
  EXPECT_EQ(store->stats().bytes_held, budget);

  const KvSequence first = store->create_sequence();
  const KvSequence second = store->create_sequence();
  for (int64_t left = 500; left > 0; left -= 90) {
    append(*store, first, std::min<int64_t>(left, 90));
    append(*store, second, std::min<int64_t>(left, 90));
    store->check();
  }
  EXPECT_EQ(store->stats().bytes_held, budget);
  EXPECT_FALSE(store->reserve(first, 64).ok());
}

TEST(KvStore, AnswersForItsStatsWhileTheEngineWorks) {
  const auto store = store_of(hybrid_geometry(), 40);
  std::atomic<bool> done{false};
  std::jthread reader([&] {
    while (!done) {
      const KvStats stats = store->stats();
      EXPECT_LE(stats.bytes_held, stats.bytes_budget);
      EXPECT_EQ(stats.groups.size(), 2u);
    }
  });
  for (int i = 0; i < 300; ++i) {
    const KvSequence seq = store->create_sequence();
    append(*store, seq, 100);
    const KvSequence twin = store->fork(seq);
    append(*store, twin, 30);
  }
  done = true;
}

TEST(KvStore, FindsAPinThatNoTableAccountsFor) {
  const auto store = store_of(global_geometry(), 4);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 10);
  {
    const PageRef stray = store->table(seq, 0).entries()[0].page.share();
    EXPECT_EQ(store->find_fault(),
              "group 0: page 0 has 2 pins, but 1 table entries and tree nodes point at it");
  }
  EXPECT_EQ(store->find_fault(), std::nullopt);
}

TEST(KvStoreDeathTest, AbortsWhenMoreIsCommittedThanWasReserved) {
  const auto store = store_of(global_geometry(), 4);
  const KvSequence seq = store->create_sequence();
  ASSERT_TRUE(store->reserve(seq, 3).ok());
  EXPECT_DEATH(store->commit(seq, 4), "reserved");
}

TEST(KvStoreDeathTest, AbortsWhenASequenceOutlivesIt) {
  EXPECT_DEATH(
      {
        KvSequence seq;
        const auto store = store_of(global_geometry(), 4);
        seq = store->create_sequence();
      },
      "outlives");
}

}  // namespace
}  // namespace quire::kv
