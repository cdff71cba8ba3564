#include "kv/memory_ledger.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace quire::kv {
namespace {

TEST(MemoryLedger, RefusesWhatWouldPassItsCeiling) {
  MemoryLedger ledger(100);
  const auto first = ledger.reserve(60);
  ASSERT_TRUE(first.has_value());

  EXPECT_FALSE(ledger.reserve(41).has_value());
  EXPECT_EQ(ledger.used(), 60);
  EXPECT_TRUE(ledger.reserve(40).has_value());
}

TEST(MemoryLedger, TakesBytesBackWhenTheirReservationDies) {
  MemoryLedger ledger(100);
  {
    auto first = ledger.reserve(60);
    const Reservation moved = std::move(*first);
    EXPECT_EQ(moved.bytes(), 60);
    EXPECT_EQ(ledger.used(), 60);
  }
  EXPECT_EQ(ledger.used(), 0);
  EXPECT_EQ(ledger.peak(), 60);
}

TEST(MemoryLedger, ReturnsTheOldBytesWhenAReservationIsReplaced) {
  MemoryLedger ledger(100);
  Reservation held = *ledger.reserve(60);
  held = *ledger.reserve(30);
  EXPECT_EQ(ledger.used(), 30);
}

TEST(Reservation, KeepsItsSizeWhenItMayNotGrow) {
  MemoryLedger ledger(100);
  Reservation held = *ledger.reserve(60);

  EXPECT_FALSE(held.resize(101));
  EXPECT_EQ(held.bytes(), 60);
  EXPECT_TRUE(held.resize(100));
  EXPECT_TRUE(held.resize(10));
  EXPECT_EQ(ledger.used(), 10);
}

TEST(MemoryLedger, GrantsNothingButZeroWhenItsCeilingIsZero) {
  MemoryLedger ledger(0);
  EXPECT_TRUE(ledger.reserve(0).has_value());
  EXPECT_FALSE(ledger.reserve(1).has_value());
}

TEST(MemoryLedger, NeverPassesItsCeilingWhenThreadsCompete) {
  MemoryLedger ledger(10);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 5'000; ++i) {
        const auto held = ledger.reserve(4);
        EXPECT_LE(ledger.used(), ledger.ceiling());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(ledger.used(), 0);
  EXPECT_LE(ledger.peak(), 10);
}

TEST(MemoryLedgerDeathTest, AbortsWhenItDiesBeforeAReservation) {
  EXPECT_DEATH(
      {
        Reservation held;
        MemoryLedger ledger(10);
        held = *ledger.reserve(1);
      },
      "used");
}

}  // namespace
}  // namespace quire::kv
