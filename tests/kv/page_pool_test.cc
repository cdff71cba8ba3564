#include "kv/page_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kv/geometry.h"

namespace quire::kv {
namespace {

constexpr int64_t kPageBytes = kPageAlignment;

std::unique_ptr<PagePool> pool_of(int64_t max_pages, MemoryLedger& ledger,
                                  int64_t cached_pages = 4) {
  return PagePool::create(
             {.page_bytes = kPageBytes, .max_pages = max_pages, .cached_pages = cached_pages},
             ledger)
      .value();
}

std::span<std::byte> bytes_of(const PageRef& page) {
  return {page.data(), static_cast<size_t>(kPageBytes)};
}

bool is_all_zero(const PageRef& page) {
  const auto bytes = bytes_of(page);
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

void fill(const PageRef& page, int value) {
  std::memset(page.data(), value, kPageBytes);
}

/// Whether the system holds memory behind the page.
bool is_resident(const std::byte* address) {
  unsigned char state = 0;
  EXPECT_EQ(::mincore(const_cast<std::byte*>(address), 1, &state), 0);
  return (state & 1) != 0;
}

TEST(PagePool, ReturnsAPageWhenItsLastPinGoes) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(1, ledger);
  auto first = pool->acquire();
  auto second = first->share();
  EXPECT_TRUE(second.is_shared());

  first.reset();
  EXPECT_FALSE(second.is_shared());
  EXPECT_FALSE(pool->acquire().has_value());

  second.reset();
  EXPECT_TRUE(pool->acquire().has_value());
  pool->check();
}

TEST(PagePool, RefusesWhenEveryPageIsPinned) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(2, ledger);
  const auto first = pool->acquire();
  const auto second = pool->acquire();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->data(), second->data());

  EXPECT_FALSE(pool->acquire().has_value());
  EXPECT_FALSE(pool->acquire_copy(*first).has_value());
  EXPECT_EQ(pool->num_available(), 0);
  pool->check();
}

TEST(PagePool, RefusesWhenTheLedgerIsSpentByAnother) {
  MemoryLedger ledger(3 * kPageBytes);
  const auto pool = pool_of(3, ledger);
  const auto neighbour = pool_of(3, ledger);
  const auto theirs = neighbour->acquire();
  const auto first = pool->acquire();
  auto second = pool->acquire();

  EXPECT_FALSE(pool->acquire().has_value());
  EXPECT_EQ(ledger.used(), 3 * kPageBytes);

  second.reset();
  EXPECT_TRUE(neighbour->acquire().has_value());
  pool->check();
  neighbour->check();
}

TEST(PagePool, HandsOutZeroesWhateverWasInThePageBefore) {
  for (const int64_t cached_pages : {0, 1, 8}) {
    MemoryLedger ledger(8 * kPageBytes);
    const auto pool = pool_of(8, ledger, cached_pages);
    for (int round = 0; round < 3; ++round) {
      std::vector<PageRef> pages;
      while (auto page = pool->acquire()) {
        EXPECT_TRUE(is_all_zero(*page));
        fill(*page, 0xA5);
        pages.push_back(std::move(*page));
      }
      EXPECT_EQ(pages.size(), 8u);
    }
    pool->check();
  }
}

TEST(PagePool, CopiesAPageWithoutTouchingItsSource) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(2, ledger);
  const auto source = pool->acquire();
  fill(*source, 7);

  const auto copy = pool->acquire_copy(*source);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(std::memcmp(copy->data(), source->data(), kPageBytes), 0);
  fill(*copy, 8);
  EXPECT_EQ(bytes_of(*source)[100], std::byte{7});
}

TEST(PagePool, ChargesHeldPagesOnly) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(10, ledger);
  EXPECT_EQ(ledger.used(), 0);
  auto page = pool->acquire();
  const auto pin = page->share();
  EXPECT_EQ(ledger.used(), kPageBytes);
  page.reset();
  EXPECT_EQ(ledger.used(), kPageBytes);
}

TEST(PagePool, GivesMemoryBeyondItsCacheBackToTheSystem) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(10, ledger, 2);
  std::vector<PageRef> pages;
  std::vector<const std::byte*> addresses;
  for (int i = 0; i < 6; ++i) {
    pages.push_back(std::move(*pool->acquire()));
    fill(pages.back(), 1);
    addresses.push_back(pages.back().data());
  }
  EXPECT_EQ(std::count_if(addresses.begin(), addresses.end(), is_resident), 6);

  pages.clear();
  EXPECT_EQ(pool->num_cached(), 2);
  EXPECT_EQ(std::count_if(addresses.begin(), addresses.end(), is_resident), 2);
  pool->check();
}

TEST(PagePool, CommitsNoMemoryForPagesThatWereNeverTouched) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(10, ledger);
  const auto page = pool->acquire();
  EXPECT_FALSE(is_resident(page->data()));
}

TEST(PagePool, SetsPreallocatedPagesAsideAtOnceAndForGood) {
  MemoryLedger ledger(10 * kPageBytes);
  {
    const auto pool =
        PagePool::create({.page_bytes = kPageBytes, .max_pages = 3, .preallocated_pages = 3},
                         ledger)
            .value();
    EXPECT_EQ(ledger.used(), 3 * kPageBytes);
    EXPECT_EQ(pool->num_available(), 3);
    for (int round = 0; round < 2; ++round) {
      std::set<int32_t> ids;
      std::vector<PageRef> pages;
      while (auto page = pool->acquire()) {
        EXPECT_TRUE(is_resident(page->data()));
        EXPECT_TRUE(is_all_zero(*page));
        fill(*page, 3);
        ids.insert(page->id().value);
        pages.push_back(std::move(*page));
      }
      EXPECT_EQ(ids.size(), 3u);
      EXPECT_EQ(ledger.used(), 3 * kPageBytes);
      pool->check();
    }
    EXPECT_EQ(ledger.used(), 3 * kPageBytes);
  }
  EXPECT_EQ(ledger.used(), 0);
}

TEST(PagePool, NamesTheNumbersWhenPreallocationDoesNotFit) {
  MemoryLedger ledger(2 * kPageBytes);
  const auto pool =
      PagePool::create({.page_bytes = kPageBytes, .max_pages = 3, .preallocated_pages = 3}, ledger);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::kDoesNotFit);
  EXPECT_NE(pool.error().message.find("12288 bytes, but only 8192 of 8192"), std::string::npos);
  EXPECT_EQ(ledger.used(), 0);
}

TEST(PagePool, SaysSoWhenTheSystemRefusesTheAddresses) {
  MemoryLedger ledger(INT64_MAX);
  for (const int64_t page_bytes : {int64_t{1} << 30, int64_t{1} << 40}) {
    const auto pool = PagePool::create({.page_bytes = page_bytes, .max_pages = INT32_MAX}, ledger);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.error().code, ErrorCode::kDoesNotFit);
    EXPECT_NE(pool.error().message.find("lower the memory budget"), std::string::npos);
  }
  EXPECT_EQ(ledger.used(), 0);
}

TEST(PagePool, WithoutRoomForAPageRefusesEveryAcquire) {
  MemoryLedger ledger(kPageBytes - 1);
  const auto pool = pool_of(0, ledger);
  EXPECT_FALSE(pool->acquire().has_value());
  const auto larger = pool_of(5, ledger);
  EXPECT_FALSE(larger->acquire().has_value());
  larger->check();
}

TEST(PageRef, MovesItsPinAndDropsTheOneItReplaces) {
  MemoryLedger ledger(10 * kPageBytes);
  const auto pool = pool_of(2, ledger);
  PageRef first = std::move(*pool->acquire());
  PageRef second = std::move(*pool->acquire());
  const PageId kept = second.id();

  first = std::move(second);
  EXPECT_EQ(first.id(), kept);
  EXPECT_EQ(pool->num_held(), 1);
  EXPECT_EQ(pool->pin_count(kept), 1);
}

TEST(PagePoolDeathTest, AbortsWhenAPinOutlivesIt) {
  EXPECT_DEATH(
      {
        MemoryLedger ledger(10 * kPageBytes);
        PageRef page;
        const auto pool = pool_of(1, ledger);
        page = std::move(*pool->acquire());
      },
      "num_held");
}

}  // namespace
}  // namespace quire::kv
