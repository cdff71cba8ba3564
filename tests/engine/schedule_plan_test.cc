// The plain decisions of scheduling.
#include "engine/schedule_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace quire::engine {
namespace {

using testing::ElementsAre;

Contender one(int64_t id, std::string_view tenant = "a") {
  return {RequestId{id}, tenant};
}

using Contenders = std::vector<Contender>;

TEST(NextToStart, TakesTheFirstThatCame) {
  EXPECT_EQ(next_to_start(Contenders{one(3), one(5), one(9)}, {}), 0u);
  EXPECT_EQ(next_to_start(Contenders{one(7), one(5)}, Contenders{one(1)}), 1u);
  EXPECT_EQ(next_to_start({}, Contenders{one(1)}), std::nullopt);
}

TEST(NextToStart, PrefersTheTenantWithTheFewestRunning) {
  const Contenders running = {one(1, "a"), one(2, "a"), one(3, "b")};
  EXPECT_EQ(next_to_start(Contenders{one(4, "a"), one(5, "b"), one(6, "c")}, running), 2u);
  EXPECT_EQ(next_to_start(Contenders{one(4, "a"), one(5, "b"), one(6, "b")}, running), 1u);
}

TEST(NextToStart, TenantsTakeTurnsWhateverTheOrderInTheQueue) {
  Contenders waiting;
  for (int64_t id = 0; id < 6; ++id) waiting.push_back(one(id, "a"));
  for (int64_t id = 6; id < 9; ++id) waiting.push_back(one(id, "b"));
  Contenders running;
  std::vector<int64_t> order;
  while (!waiting.empty()) {
    const size_t next = next_to_start(waiting, running).value();
    order.push_back(waiting[next].id.value);
    running.push_back(waiting[next]);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(next));
  }
  EXPECT_THAT(order, ElementsAre(0, 6, 1, 7, 2, 8, 3, 4, 5));
}

TEST(WhomToPreempt, IsTheYoungestOfTheTenantWithTheMost) {
  EXPECT_EQ(whom_to_preempt(Contenders{one(1), one(4), one(3)}), 1u);
  EXPECT_EQ(whom_to_preempt(Contenders{one(1, "a"), one(2, "a"), one(3, "b")}), 1u);
  EXPECT_EQ(whom_to_preempt(Contenders{one(1, "a"), one(2, "b")}), 1u);
}

TEST(WhomToPreempt, IsNeverTheOldestWhileOthersRun) {
  // All ways in which up to five requests can belong to three tenants.
  for (int ways = 0; ways < 243; ++ways) {
    Contenders running;
    int rest = ways;
    for (int64_t id = 0; id < 5; ++id, rest /= 3) {
      running.push_back(one(id, std::string_view("abc").substr(static_cast<size_t>(rest % 3), 1)));
      if (running.size() > 1) EXPECT_NE(running[whom_to_preempt(running)].id.value, 0);
    }
  }
}

TEST(WhomToReplace, GivesWayOnlyToATenantWithTwoFewer) {
  const Contenders running = {one(1, "a"), one(2, "a"), one(3, "b")};
  EXPECT_EQ(whom_to_replace(one(4, "c"), running), 1u);
  EXPECT_EQ(whom_to_replace(one(4, "b"), running), std::nullopt);
  EXPECT_EQ(whom_to_replace(one(4, "a"), running), std::nullopt);
  EXPECT_EQ(whom_to_replace(one(4, "c"), Contenders{one(1, "a"), one(3, "b")}), std::nullopt);
  EXPECT_EQ(whom_to_replace(one(4, "c"), {}), std::nullopt);
}

TEST(WhomToReplace, NobodySwapsBack) {
  const Contenders running = {one(1, "a"), one(2, "a")};
  ASSERT_EQ(whom_to_replace(one(4, "b"), running), 1u);
  const Contenders after = {one(1, "a"), one(4, "b")};
  EXPECT_EQ(whom_to_replace(one(2, "a"), after), std::nullopt);
}

TEST(DivideTokens, GivesTheFirstReaderOfATenantAllItCanRead) {
  EXPECT_THAT(divide_tokens(std::vector<Reader>{{"a", 100}, {"a", 100}}, 30), ElementsAre(30, 0));
  EXPECT_THAT(divide_tokens(std::vector<Reader>{{"a", 10}, {"a", 100}}, 30), ElementsAre(10, 20));
}

TEST(DivideTokens, GivesTenantsEqualShares) {
  EXPECT_THAT(divide_tokens(std::vector<Reader>{{"a", 100}, {"a", 100}, {"b", 100}}, 30),
              ElementsAre(15, 0, 15));
  // What one cannot use the others get.
  EXPECT_THAT(divide_tokens(std::vector<Reader>{{"a", 100}, {"a", 100}, {"b", 4}}, 30),
              ElementsAre(26, 0, 4));
}

TEST(DivideTokens, LeavesNothingOverThatSomebodyCouldRead) {
  for (int64_t tokens : {0, 1, 2, 3, 7, 40, 41, 1000}) {
    const std::vector<Reader> readers = {{"a", 3}, {"b", 17}, {"a", 8}, {"c", 1}, {"b", 12}};
    const auto given = divide_tokens(readers, tokens);
    int64_t sum = 0;
    for (size_t i = 0; i < readers.size(); ++i) {
      EXPECT_LE(given[i], readers[i].limit);
      sum += given[i];
    }
    EXPECT_EQ(sum, std::min<int64_t>(tokens, 41));
  }
  EXPECT_THAT(divide_tokens({}, 5), ElementsAre());
}

}  // namespace
}  // namespace quire::engine
