#include "engine/ngram_drafter.h"

#include <gtest/gtest.h>

#include <random>

namespace quire::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens ids(std::initializer_list<int32_t> values) {
  Tokens tokens;
  for (const int32_t value : values) tokens.push_back({value});
  return tokens;
}

Tokens draft_of(const NgramDrafter& drafter, int64_t most) {
  const auto guesses = drafter.draft(most);
  return {guesses.begin(), guesses.end()};
}

TEST(NgramDrafter, GoesOnAsTheTextDidBehindItsLastWords) {
  NgramDrafter drafter;
  drafter.extend(ids({1, 2, 3, 4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(draft_of(drafter, 2), ids({4, 5}));
  EXPECT_EQ(draft_of(drafter, 100), ids({4, 5, 6, 1, 2, 3}));
}

TEST(NgramDrafter, SaysNothingOfWordsThatStoodNowhereBefore) {
  NgramDrafter drafter;
  EXPECT_TRUE(drafter.draft(8).empty());
  drafter.extend(ids({1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(drafter.draft(8).empty());
  EXPECT_TRUE(drafter.draft(0).empty());
}

TEST(NgramDrafter, PrefersTheNewestOfEqualPlaces) {
  NgramDrafter drafter;
  drafter.extend(ids({1, 2, 3, 7, 9, 1, 2, 3, 8, 9, 1, 2, 3}));
  EXPECT_EQ(draft_of(drafter, 1), ids({8}));
}

TEST(NgramDrafter, PrefersALongerRunOfEqualWords) {
  NgramDrafter drafter;
  drafter.extend(ids({10, 11, 12, 1, 2, 3, 7, 0, 1, 2, 3, 8, 0, 10, 11, 12, 1, 2, 3}));
  EXPECT_EQ(draft_of(drafter, 1), ids({7}));
}

TEST(NgramDrafter, GuessesAWordThatRepeatsItself) {
  NgramDrafter drafter;
  drafter.extend(ids({5, 5, 5, 5}));
  EXPECT_EQ(draft_of(drafter, 4), ids({5}));
}

/// The same by looking at everything.
Tokens naive_draft(const Tokens& text, int64_t most) {
  const auto size = static_cast<int64_t>(text.size());
  for (const int64_t length : {6, 3}) {
    for (int64_t end = size - 1; end >= length; --end) {
      if (!std::equal(text.end() - length, text.end(), text.begin() + (end - length))) continue;
      const auto begin = text.begin() + end;
      return {begin, begin + std::min(most, size - end)};
    }
  }
  return {};
}

TEST(NgramDrafter, EqualsItsNaiveTwinOnRandomTexts) {
  std::mt19937 random(7);
  for (int run = 0; run < 200; ++run) {
    NgramDrafter drafter;
    const int32_t words = 2 + static_cast<int32_t>(random() % 6);
    for (int i = 0; i < 60; ++i) {
      const TokenId token{static_cast<int32_t>(random() % static_cast<uint32_t>(words))};
      drafter.extend({&token, 1});
      ASSERT_EQ(draft_of(drafter, 5), naive_draft(drafter.tokens(), 5)) << run << " " << i;
    }
  }
}

}  // namespace
}  // namespace quire::engine
