// The merging itself, beside a naive twin that restarts its search after every merge.
#include "context/tokenizer/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

namespace quire::context {
namespace {

using testing::HasSubstr;

/// A random vocabulary over few letters, with merges that make each longer token of two shorter.
struct RandomModel {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  std::vector<float> scores;

  RandomModel(std::mt19937& rng, size_t num_letters, size_t num_merges) {
    tokens.reserve(num_letters + num_merges);
    for (size_t i = 0; i < num_letters; ++i) tokens.emplace_back(1, static_cast<char>('a' + i));
    for (size_t i = 0; i < num_merges; ++i) {
      const std::string_view left = tokens[rng() % tokens.size()];
      const std::string_view right = tokens[rng() % tokens.size()];
      const std::string joined = std::string(left) + std::string(right);
      if (std::ranges::find(tokens, joined) == tokens.end()) tokens.push_back(joined);
      merges.emplace_back(left, right);
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      scores.push_back(static_cast<float>(rng() % 8));  // few values, so that ties are common
    }
  }

  Vocabulary vocabulary() const {
    std::vector<TokenEntry> entries;
    for (const std::string& token : tokens) entries.push_back({token, TokenKind::kNormal, true});
    return Vocabulary::create(entries, Spelling::kCharacters).value();
  }

  /// Of a merge: its place in the list, the last if it is there twice.
  size_t rank(const std::string& left, const std::string& right) const {
    for (size_t i = merges.size(); i-- > 0;) {
      if (merges[i].first == left && merges[i].second == right) return i;
    }
    return std::numeric_limits<size_t>::max();
  }

  /// Of a merge by scores: the higher the score of what it makes, the smaller.
  size_t score_rank(const std::string& left, const std::string& right) const {
    const auto token = std::ranges::find(tokens, left + right);
    if (token == tokens.end()) return std::numeric_limits<size_t>::max();
    return static_cast<size_t>(100 - scores[static_cast<size_t>(token - tokens.begin())]);
  }

  template <class Rank>
  std::vector<std::string> naive(const std::string& word, Rank rank_of) const {
    std::vector<std::string> parts;
    for (const char c : word) parts.emplace_back(1, c);
    while (parts.size() > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < parts.size(); ++i) {
        if (rank_of(parts[i], parts[i + 1]) < rank_of(parts[best], parts[best + 1])) best = i;
      }
      if (rank_of(parts[best], parts[best + 1]) == std::numeric_limits<size_t>::max()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    return parts;
  }
};

std::string random_word(std::mt19937& rng, size_t num_letters, size_t length) {
  std::string word;
  for (size_t i = 0; i < length; ++i) word += static_cast<char>('a' + rng() % num_letters);
  return word;
}

std::vector<std::string> merged(const BpeModel& model, const Vocabulary& vocabulary,
                                const std::string& word, BpeScratch& scratch) {
  std::vector<PlacedToken> placed;
  model.encode(word, 7, scratch, placed);
  std::vector<std::string> parts;
  size_t begin = 7;
  for (const PlacedToken& token : placed) {
    EXPECT_EQ(token.begin, begin);
    parts.emplace_back(vocabulary.piece(token.id.value));
    begin += parts.back().size();
  }
  return parts;
}

TEST(BpeModel, MergesWordsOfAnyLengthLikeItsNaiveTwin) {
  std::mt19937 rng(1);
  for (int round = 0; round < 60; ++round) {
    const size_t num_letters = 1 + rng() % 4;
    const RandomModel random(rng, num_letters, 1 + rng() % 40);
    const Vocabulary vocabulary = random.vocabulary();
    const auto by_rank = BpeModel::from_merges(vocabulary, {Spelling::kCharacters}, random.merges);
    const auto by_score = BpeModel::from_scores(vocabulary, {Spelling::kCharacters}, random.scores);
    ASSERT_TRUE(by_rank.ok() && by_score.ok());
    BpeScratch scratch;
    for (int i = 0; i < 40; ++i) {
      const std::string word = random_word(rng, num_letters, 1 + rng() % (i % 4 == 0 ? 200 : 20));
      EXPECT_EQ(
          merged(*by_rank, vocabulary, word, scratch),
          random.naive(word, [&](const auto& a, const auto& b) { return random.rank(a, b); }));
      EXPECT_EQ(merged(*by_score, vocabulary, word, scratch),
                random.naive(
                    word, [&](const auto& a, const auto& b) { return random.score_rank(a, b); }));
    }
  }
}

TEST(BpeModel, GivesTheSameTokensFromItsCache) {
  std::mt19937 rng(2);
  const RandomModel random(rng, 3, 30);
  const Vocabulary vocabulary = random.vocabulary();
  const auto model = BpeModel::from_merges(vocabulary, {Spelling::kCharacters}, random.merges);
  BpeScratch warm;
  for (int i = 0; i < 20'000; ++i) {
    const std::string word = random_word(rng, 3, 1 + rng() % 9);
    BpeScratch cold;
    ASSERT_EQ(merged(*model, vocabulary, word, warm), merged(*model, vocabulary, word, cold));
  }
}

/// All bytes have tokens, so words may be cut between characters that never meet in a token.
TEST(BpeModel, CutsWordsOnlyWhereNothingChanges) {
  std::vector<std::string> spelled = {"a", "b", "c", "ab", "bc", "\u2581", "\u2581a", "<unk>"};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    spelled.emplace_back(name);
  }
  std::vector<TokenEntry> entries;
  for (const std::string& token : spelled) {
    const bool is_byte = token.size() == 6 && token[0] == '<';
    entries.push_back({token, is_byte ? TokenKind::kByte : TokenKind::kNormal, !is_byte});
  }
  const Vocabulary vocabulary = Vocabulary::create(entries, Spelling::kMetaspace).value();
  const std::vector<std::pair<std::string_view, std::string_view>> merges = {
      {"b", "c"}, {"a", "b"}, {"\u2581", "a"}};
  const BpeOptions cutting{Spelling::kMetaspace, false, true, true, 7};
  const BpeOptions whole{Spelling::kMetaspace, true, true, true, 7};  // looks whole words up first
  const auto with_cuts = BpeModel::from_merges(vocabulary, cutting, merges);
  const auto without = BpeModel::from_merges(vocabulary, whole, merges);
  std::mt19937 rng(3);
  BpeScratch scratch;
  const std::vector<std::string> letters = {"a", "b", "c", "\u2581", "\u4F60", "\xFF"};
  for (int i = 0; i < 5000; ++i) {
    std::string word = "\u4F60";  // never a token as a whole
    for (size_t length = rng() % 30; length > 0; --length) word += letters[rng() % letters.size()];
    std::vector<PlacedToken> cut;
    std::vector<PlacedToken> uncut;
    with_cuts->encode(word, 0, scratch, cut);
    without->encode(word, 0, scratch, uncut);
    ASSERT_EQ(cut.size(), uncut.size());
    for (size_t k = 0; k < cut.size(); ++k) {
      ASSERT_EQ(cut[k].id, uncut[k].id);
      ASSERT_EQ(cut[k].begin, uncut[k].begin);
    }
  }
}

TEST(BpeModel, RefusesAMergeOfTokensThatAreNotThere) {
  const std::vector<TokenEntry> entries = {{"a", TokenKind::kNormal, true},
                                           {"b", TokenKind::kNormal, true}};
  const Vocabulary vocabulary = Vocabulary::create(entries, Spelling::kCharacters).value();
  const std::vector<std::pair<std::string_view, std::string_view>> merges = {{"a", "b"}};
  const auto model = BpeModel::from_merges(vocabulary, {Spelling::kCharacters}, merges);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("Merge 0"));
}

TEST(MinTree, AgreesWithASearchThroughAllNumbers) {
  std::mt19937 rng(4);
  for (const size_t size : {1, 2, 15, 16, 17, 255, 256, 257, 5000}) {
    std::vector<uint32_t> numbers(size);
    for (uint32_t& number : numbers) number = static_cast<uint32_t>(rng() % 50);
    MinTree tree;
    std::vector<uint32_t> given = numbers;
    tree.assign(given);
    for (int i = 0; i < 500; ++i) {
      const auto least = std::ranges::min_element(numbers);
      ASSERT_EQ(tree.smallest(), *least);
      if (*least != MinTree::kNone) {
        ASSERT_EQ(tree.where(), static_cast<size_t>(least - numbers.begin()));
      }
      const size_t at =
          i % 2 == 0 ? tree.smallest() == MinTree::kNone ? 0 : tree.where() : rng() % size;
      numbers[at] = i % 3 == 0 ? MinTree::kNone : static_cast<uint32_t>(rng() % 50);
      tree.set(at, numbers[at]);
    }
  }
}

}  // namespace
}  // namespace quire::context
