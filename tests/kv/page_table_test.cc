#include "kv/page_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "kv/geometry.h"

namespace quire::kv {
namespace {

class PageTableTest : public testing::Test {
 protected:
  void add_page(PageTable& table, int32_t base, int16_t end) {
    table.append({.page = std::move(*pool_->acquire()),
                  .stored_base = base,
                  .logical_base = base,
                  .begin = 0,
                  .end = end});
  }
  /// Pages at 0, 64, 128, the last with ten tokens.
  PageTable three_pages() {
    PageTable table;
    add_page(table, 0, 64);
    add_page(table, 64, 64);
    add_page(table, 128, 10);
    return table;
  }

  MemoryLedger ledger_{10 * kPageAlignment};
  std::unique_ptr<PagePool> pool_ =
      PagePool::create({.page_bytes = kPageAlignment, .max_pages = 10}, ledger_).value();
};

TEST_F(PageTableTest, CoversOneRunOfPositions) {
  const PageTable table = three_pages();
  EXPECT_EQ(table.first_position(), 0);
  EXPECT_EQ(table.end_position(), 138);
  EXPECT_EQ(table.room(), 54);
  EXPECT_EQ(table.find_fault(), std::nullopt);
}

TEST_F(PageTableTest, ReturnsPagesThatLieWhollyBehindADrop) {
  PageTable table = three_pages();

  table.drop_between(0, 63);
  EXPECT_EQ(table.num_pages(), 3);
  table.drop_between(0, 64);
  EXPECT_EQ(table.num_pages(), 2);
  EXPECT_EQ(table.first_position(), 64);
  EXPECT_EQ(pool_->num_held(), 2);
  EXPECT_EQ(table.find_fault(), std::nullopt);
}

TEST_F(PageTableTest, CutsAPageInTheMiddleAndReturnsThoseBehind) {
  PageTable table = three_pages();

  table.truncate(70);
  EXPECT_EQ(table.end_position(), 70);
  EXPECT_EQ(pool_->num_held(), 2);
  table.truncate(64);
  EXPECT_EQ(table.end_position(), 64);
  EXPECT_EQ(pool_->num_held(), 1);
  EXPECT_EQ(table.room(), 0);
  table.truncate(0);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(pool_->num_held(), 0);
}

TEST_F(PageTableTest, SharesPagesWithItsFork) {
  PageTable table = three_pages();
  PageTable twin = table.fork(130);

  EXPECT_EQ(twin.end_position(), 130);
  EXPECT_EQ(table.end_position(), 138);
  EXPECT_TRUE(table.last_is_shared());
  EXPECT_EQ(pool_->num_held(), 3);

  EXPECT_EQ(twin.spans().back().page, table.spans().back().page);
  twin.replace_last(std::move(*pool_->acquire_copy(twin.entries().back().page)));
  EXPECT_NE(twin.spans().back().page, table.spans().back().page);
  EXPECT_FALSE(table.last_is_shared());
  EXPECT_FALSE(twin.last_is_shared());
  EXPECT_EQ(pool_->num_held(), 4);
}

TEST_F(PageTableTest, ForksNoPageBehindTheEnd) {
  PageTable table = three_pages();
  EXPECT_EQ(table.fork(128).num_pages(), 2);
  EXPECT_TRUE(table.fork(0).empty());
}

TEST_F(PageTableTest, ShowsKernelsWhatItHoldsNow) {
  PageTable table = three_pages();
  ASSERT_EQ(table.spans().size(), 3u);
  EXPECT_EQ(table.spans()[2].end, 10);
  EXPECT_EQ(table.spans()[2].page, table.entries()[2].page.data());

  table.extend_to(192);
  EXPECT_EQ(table.spans()[2].end, 64);
  table.drop_between(0, 100);
  EXPECT_EQ(table.spans().front().logical_base, 64);
  table.truncate(80);
  EXPECT_EQ(table.spans().back().end, 16);
}

TEST_F(PageTableTest, HoldsAMovedPageAtItsLogicalPosition) {
  PageTable table;
  add_page(table, 0, 10);
  table.append({.page = std::move(*pool_->acquire()),
                .stored_base = 640,
                .logical_base = -10,
                .begin = 20,
                .end = 64});
  EXPECT_EQ(table.end_position(), 54);
  EXPECT_EQ(table.spans()[1].stored_base, 640);
  EXPECT_EQ(table.find_fault(), std::nullopt);
}

using PageTableDeathTest = PageTableTest;

TEST_F(PageTableDeathTest, AbortsOnAGap) {
  EXPECT_DEATH(
      {
        PageTable table = three_pages();
        add_page(table, 192, 1);
      },
      "end_position");
}

TEST_F(PageTableDeathTest, AbortsWhenASharedPageWouldBeWritten) {
  EXPECT_DEATH(
      {
        PageTable table = three_pages();
        const PageTable twin = table.fork(138);
        table.extend_to(139);
      },
      "copied before it is written");
}

}  // namespace
}  // namespace quire::kv
