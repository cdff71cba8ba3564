#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace quire::engine {
namespace {

TEST(StopMatcher, FindsAStopStringAcrossPieces) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("go on S"), "go on ");
  EXPECT_EQ(matcher.push("TO"), "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.push("P and more"), "");
  EXPECT_EQ(matcher.matched(), "STOP");
}

TEST(StopMatcher, ReleasesWhatTurnsOutToBeNoStopString) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("STO"), "");
  EXPECT_EQ(matcher.push("RM"), "STORM");
  EXPECT_EQ(matcher.push("S"), "");
  EXPECT_EQ(matcher.finish(), "S");
}

TEST(StopMatcher, TakesTheOneThatEndsFirst) {
  StopMatcher matcher({"abcd", "bc"});
  EXPECT_EQ(matcher.push("xabcd"), "xa");
  EXPECT_EQ(matcher.matched(), "bc");
}

TEST(StopMatcher, TakesTheLongerOfTwoThatEndTogether) {
  StopMatcher matcher({"cd", "abcd"});
  EXPECT_EQ(matcher.push("xabcd"), "x");
  EXPECT_EQ(matcher.matched(), "abcd");
}

TEST(StopMatcher, IgnoresEmptyStopStrings) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("text"), "text");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, ShowsTheSameTextHoweverItIsCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += static_cast<char>('a' + random() % 2);
    const std::vector<std::string> stops = {"abba", "bbbb", "aabab"};
    size_t end = std::string::npos;
    std::string expected = text;
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == std::string::npos || at + stop.size() > end) continue;
      if (at + stop.size() == end && at >= expected.size()) continue;
      end = at + stop.size();
      expected = text.substr(0, at);
    }
    StopMatcher matcher(stops);
    std::string shown;
    for (size_t at = 0; at < text.size() && !matcher.matched();) {
      const size_t take = 1 + random() % 5;
      shown += matcher.push(std::string_view(text).substr(at, take));
      at += take;
    }
    if (!matcher.matched()) shown += matcher.finish();
    // A piece may hold two stop strings; the earliest end wins there too.
    ASSERT_EQ(shown, expected) << text;
  }
}

}  // namespace
}  // namespace quire::engine
