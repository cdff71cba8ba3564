// Documents in pieces that a model can be given.
#include "context/chunking.h"

#include <gmock/gmock.h>

#include <random>

#include "context/tokenizer_testing.h"

namespace quire::context {
namespace {

using ::testing::ElementsAre;

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = *tokenizer_of_folder(QUIRE_TEST_DATA "/tiny/llama_tied");
  return loaded;
}

std::vector<std::string> pieces(std::string_view text, int64_t max_tokens) {
  std::vector<std::string> out;
  for (const TextChunk& chunk : cut_into_chunks(tokenizer(), text, max_tokens)) {
    out.emplace_back(text.substr(chunk.begin, chunk.end - chunk.begin));
  }
  return out;
}

TEST(Chunking, LeavesAShortTextWhole) {
  EXPECT_THAT(pieces("  One sentence.\nAnother.\n", 100), ElementsAre("One sentence.\nAnother."));
  EXPECT_TRUE(pieces("", 100).empty());
  EXPECT_TRUE(pieces(" \n\t\n", 100).empty());
}

TEST(Chunking, EndsAtParagraphsBeforeSentences) {
  const std::string first = "one two three four. five six seven.";
  const std::string second = "eight nine ten. eleven twelve.";
  const int64_t tokens = cut_into_chunks(tokenizer(), first, 1000)[0].tokens;
  EXPECT_THAT(pieces(first + "\n\n" + second, tokens + 8), ElementsAre(first, second));
}

TEST(Chunking, EndsAtSentencesBeforeLinesAndWords) {
  const std::string first = "one two three four five.";
  const std::string second = "six seven\neight nine ten.";
  const int64_t tokens = cut_into_chunks(tokenizer(), first, 1000)[0].tokens;
  const auto cut = pieces(first + " " + second, tokens + 3);
  EXPECT_EQ(cut.front(), first);
}

TEST(Chunking, EndsChineseSentencesWithoutSpaces) {
  const std::string first = "缓存保存键和值。";
  const std::string second = "页可以共享。";
  const int64_t tokens = cut_into_chunks(tokenizer(), first, 1000)[0].tokens;
  EXPECT_EQ(pieces(first + second, tokens + 2).front(), first);
}

TEST(Chunking, CountsLinesAndTokens) {
  const std::string text = "# Title\n\nfirst line\nsecond line\n\n# Next\n\nthird line\n";
  const int64_t half = cut_into_chunks(tokenizer(), text, 1000)[0].tokens / 2;
  const auto chunks = cut_into_chunks(tokenizer(), text, half + 6);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].first_line, 1);
  EXPECT_EQ(chunks[0].last_line, 4);
  EXPECT_EQ(chunks[1].first_line, 6);
  EXPECT_EQ(chunks[1].last_line, 8);
  for (const TextChunk& chunk : chunks) {
    const std::string_view piece =
        std::string_view(text).substr(chunk.begin, chunk.end - chunk.begin);
    EXPECT_EQ(chunk.tokens, std::ssize(tokenizer().encode(piece, Special::kPlain)));
  }
}

/// Every character but white space between pieces stands in exactly one of them, and no piece ends
/// inside a character.
TEST(Chunking, LosesNothingOfRandomTexts) {
  const std::vector<std::string> atoms = {"a",
                                          "word",
                                          " ",
                                          "\n",
                                          "\n\n",
                                          ". ",
                                          "。",
                                          "缓",
                                          "存",
                                          "é",
                                          "\xF0\x9F\x98\x80",
                                          "# ",
                                          "!",
                                          "\"",
                                          "\xff",
                                          "supercalifragilistic"};
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (size_t i = random() % 120; i > 0; --i) text += atoms[random() % atoms.size()];
    const auto max_tokens = static_cast<int64_t>(1 + random() % 20);
    size_t end = 0;
    for (const TextChunk& chunk : cut_into_chunks(tokenizer(), text, max_tokens)) {
      ASSERT_GE(chunk.begin, end);
      ASSERT_GT(chunk.end, chunk.begin);
      const std::string between = text.substr(end, chunk.begin - end);
      ASSERT_EQ(between.find_first_not_of(" \n"), std::string::npos) << between;
      ASSERT_TRUE(chunk.end == text.size() ||
                  (static_cast<unsigned char>(text[chunk.end]) & 0xC0) != 0x80)
          << "inside a character";
      end = chunk.end;
    }
    ASSERT_EQ(text.find_first_not_of(" \n", end), std::string::npos);
  }
}

}  // namespace
}  // namespace quire::context
