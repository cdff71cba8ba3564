#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kv/fake_private_file.h"
#include "kv/kv_store.h"

namespace quire::kv {
namespace {

constexpr int64_t kPage = kPageAlignment;

/// Four layers of one small head: a page holds all of them in 2 KiB, rounded up to one system page.
std::unique_ptr<KvStore> store_of(int64_t memory_pages, int64_t spill_pages,
                                  std::shared_ptr<DiskFaults> faults) {
  const auto geometry = KvGeometry::create(std::vector<LayerKv>(4, {1, 2, 0}), {}).value();
  KvStoreOptions options{.budget_bytes = memory_pages * kPage};
  options.spill =
      SpillOptions{.open_file = [faults]() -> Result<std::unique_ptr<PrivateFile>> {
                     return std::unique_ptr<PrivateFile>(std::make_unique<FakePrivateFile>(faults));
                   },
                   .max_bytes = spill_pages * kPage};
  return KvStore::create(geometry, options).value();
}

void append(KvStore& store, const KvSequence& seq, int64_t tokens) {
  ASSERT_TRUE(store.reserve(seq, tokens).ok());
  store.commit(seq, tokens);
}

TEST(KvStoreSpill, MovesTheOldestFullPagesOutAndKeepsTheLast) {
  const auto store = store_of(6, 100, std::make_shared<DiskFaults>());
  const KvSequence seq = store->create_sequence();
  for (int i = 0; i < 10; ++i) append(*store, seq, 64);
  EXPECT_GT(store->stats().bytes_spilled, 0);
  EXPECT_LE(store->stats().bytes_held, 6 * kPage);
  const auto entries = store->table(seq, 0).entries();
  EXPECT_TRUE(entries.front().page.is_spilled());
  EXPECT_FALSE(entries.back().page.is_spilled());
  store->check();
}

TEST(KvStoreSpill, RefusesWithNumbersThatAreTrue) {
  const auto store = store_of(6, 100, std::make_shared<DiskFaults>());
  const KvSequence seq = store->create_sequence();
  for (int i = 0; i < 10; ++i) append(*store, seq, 64);
  const auto refused = store->reserve(seq, 64 * 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(refused.error().message.find("-"), std::string::npos)
      << "nothing is negative: " << refused.error().message;
  EXPECT_GE(store->plan_reserve(seq, 64).available_bytes, 0);
  EXPECT_EQ(store->length(seq), 640);
  store->check();
}

TEST(KvStoreSpill, ReturnsMemoryAndDiskWithTheSequence) {
  const auto store = store_of(6, 100, std::make_shared<DiskFaults>());
  {
    const KvSequence seq = store->create_sequence();
    for (int i = 0; i < 10; ++i) append(*store, seq, 64);
  }
  EXPECT_EQ(store->stats().bytes_spilled, 0);
  const KvSequence next = store->create_sequence();
  append(*store, next, 64);
  EXPECT_EQ(store->stats().bytes_held, kPage) << "buffers go with the last spilled page";
  store->check();
}

TEST(KvStoreSpill, StaysAsItWasWhenTheDiskIsFull) {
  const auto faults = std::make_shared<DiskFaults>();
  const auto store = store_of(6, 100, faults);
  const KvSequence seq = store->create_sequence();
  append(*store, seq, 64 * 5);
  faults->writes_until_full = 0;
  const auto refused = store->reserve(seq, 64 * 4);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_EQ(store->length(seq), 320);
  EXPECT_EQ(store->reserved(seq), 0);
  EXPECT_EQ(store->stats().bytes_spilled, 0);
  store->check();
}

}  // namespace
}  // namespace quire::kv
