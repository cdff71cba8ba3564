// Pre-tokenizers and their patterns: where texts are cut into words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "context/tokenizer/pretokenizer.h"
#include "context/tokenizer/readers.h"
#include "context/tokenizer/regex.h"

namespace quire::context {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(const PreTokenizer& pre_tokenizer, std::string_view text,
                               RegexScratch::Texts texts = RegexScratch::Texts::kAny) {
  RegexScratch scratch(texts);
  const Words cut = pre_tokenizer.apply(AlignedText(text, 0, Tracking::kOff), scratch);
  std::vector<std::string> out;
  for (const ByteRange range : cut.ranges) {
    out.emplace_back(cut.text.text().substr(range.begin, range.end - range.begin));
  }
  return out;
}

PreTokenizer named(std::string_view name) {
  return PreTokenizer(std::move(pre_tokenizer_by_name(name).value().steps));
}

PreTokenizer split(std::string_view pattern, SplitBehavior behavior,
                   SplitAt at = SplitAt::kMatches) {
  std::vector<PreTokenizerStep> steps;
  steps.push_back(Split{Pattern::regex(Regex::compile(pattern, "test").value()), behavior, at});
  return PreTokenizer(std::move(steps));
}

TEST(PreTokenizer, Gpt2LeavesOneSpaceForTheNextWord) {
  EXPECT_THAT(words(named("gpt-2"), "Hello  world's 12 !?\n\n x"),
              ElementsAre("Hello", " ", " world", "'s", " 12", " !?", "\n\n", " x"));
}

TEST(PreTokenizer, SmolLmCutsDigitsOneByOneBeforeAllElse) {
  EXPECT_THAT(words(named("smollm"), "a  12b"), ElementsAre("a", "  ", "1", "2", "b"));
}

TEST(PreTokenizer, Llama3TakesDigitsByThreeAndQwenOneByOne) {
  EXPECT_THAT(words(named("llama-bpe"), "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(words(named("qwen2"), "123"), ElementsAre("1", "2", "3"));
}

TEST(PreTokenizer, CountsLongSAsAContraction) {
  EXPECT_THAT(words(named("llama-bpe"), "it'\u017F it'S"),
              ElementsAre("it", "'\u017F", " it", "'S"));
}

TEST(PreTokenizer, AgreesWithHuggingFaceOnWhatIsWhiteSpace) {
  // U+0085 is, U+180E is not.
  EXPECT_THAT(words(named("gpt-2"), "a\u0085b"), ElementsAre("a", "\u0085", "b"));
  EXPECT_THAT(words(named("gpt-2"), "!\u180E!"), ElementsAre("!\u180E!"));
  EXPECT_THAT(words(named("gpt-2"), "!\u0085!"), ElementsAre("!", "\u0085", "!"));
}

TEST(PreTokenizer, KnowsLettersThatUnicodeAddedLately) {
  // U+31350: a CJK letter of Unicode 15. U+1C89, U+1C8A: Cyrillic letters of Unicode 16.
  EXPECT_THAT(words(named("gpt-2"), "a\U00031350\u1C89\u1C8A!"),
              ElementsAre("a\U00031350\u1C89\u1C8A", "!"));
}

TEST(PreTokenizer, FalconLooksForDigitsAmongTheCharactersThatStandForBytes) {
  EXPECT_THAT(words(named("falcon"), "a12345!!b"), ElementsAre("a", "123", "45", "!!", "b"));
  // "\u043C" is the bytes D0 BC, and GPT-2 writes BC as the fraction one quarter: a number.
  EXPECT_THAT(words(named("falcon"), "\u043C"), ElementsAre("\xD0", "\xBC"));
}

TEST(PreTokenizer, DeepSeekV3CutsDigitsThenCjkThenTheRest) {
  EXPECT_THAT(words(named("deepseek-v3"), "it's 1234 \u4F60\u597D \u3042x"),
              ElementsAre("it", "'s", " ", "123", "4", " ", "\u4F60\u597D", " ", "\u3042", "x"));
}

TEST(PreTokenizer, O200kKeepsAContractionWithItsWordAndCutsCamelCase) {
  EXPECT_THAT(words(named("gpt-4o"), "don't camelCase HTMLParser"),
              ElementsAre("don't", " camel", "Case", " HTMLParser"));
  EXPECT_THAT(words(named("tekken"), "don't 123"), ElementsAre("don", "'t", " ", "1", "2", "3"));
}

TEST(PreTokenizer, RefusesAnUnknownNameByName) {
  const auto unknown = pre_tokenizer_by_name("llama-next");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(unknown.error().message, HasSubstr("llama-next"));
}

TEST(PreTokenizer, CutsAroundIllFormedBytes) {
  EXPECT_THAT(words(named("gpt-2"), "ab\xFF\xFE cd"), ElementsAre("ab", "\xFF\xFE", " cd"));
}

TEST(PreTokenizer, TreatsMatchesAsTheBehaviorSays) {
  EXPECT_THAT(words(split("x", SplitBehavior::kRemoved), "axxb"), ElementsAre("a", "b"));
  EXPECT_THAT(words(split("x", SplitBehavior::kIsolated), "axxb"), ElementsAre("a", "x", "x", "b"));
  EXPECT_THAT(words(split("x", SplitBehavior::kContiguous), "axxb"), ElementsAre("a", "xx", "b"));
  EXPECT_THAT(words(split("x", SplitBehavior::kMergedWithPrevious), "xaxxb"),
              ElementsAre("x", "ax", "x", "b"));
  EXPECT_THAT(words(split("x", SplitBehavior::kMergedWithNext), "axxbx"),
              ElementsAre("a", "x", "xb", "x"));
  EXPECT_THAT(words(split("a+", SplitBehavior::kRemoved, SplitAt::kGaps), "xaabay"),
              ElementsAre("aa", "a"));
}

TEST(PreTokenizer, WritesMetaspaceWhereTheSchemeSays) {
  const auto metaspace = [](Metaspace::PrependTo to) {
    std::vector<PreTokenizerStep> steps;
    steps.push_back(Metaspace{"_", to, true});
    return PreTokenizer(std::move(steps));
  };
  using PrependTo = Metaspace::PrependTo;
  EXPECT_THAT(words(metaspace(PrependTo::kEach), "a  b"), ElementsAre("_a", "_", "_b"));
  EXPECT_THAT(words(metaspace(PrependTo::kEach), " b"), ElementsAre("_b"));
  EXPECT_THAT(words(metaspace(PrependTo::kNone), "a b"), ElementsAre("a", "_b"));

  RegexScratch scratch(RegexScratch::Texts::kWellFormed);
  const Words later =
      metaspace(PrependTo::kFirst).apply(AlignedText("a", 5, Tracking::kOff), scratch);
  EXPECT_EQ(later.text.text(), "a");
}

TEST(Regex, RepeatsAnIntervalThatIsFollowedByPlus) {
  EXPECT_THAT(words(split("a{1,2}+", SplitBehavior::kIsolated), "aaaaab"),
              ElementsAre("aaaaa", "b"));
  EXPECT_THAT(words(split("(?:ab|c){2}+c", SplitBehavior::kIsolated), "abcabccx"),
              ElementsAre("abcabcc", "x"));
}

TEST(Regex, EndsLinesAtDollar) {
  EXPECT_THAT(words(split("b$", SplitBehavior::kIsolated), "ab\nbb"),
              ElementsAre("a", "b", "\nb", "b"));
}

TEST(Regex, RefusesWhatItCannotTranslateFaithfully) {
  for (const char* pattern : {"^a", "\\ba", "[a&&b]", "[[:alpha:]]", "a{2}?", "(?<n>a)", "(a)\\1",
                              "\\p{Greek}", "[\\S]", "(?m:a)", "\\h", "a{", "[a", "a)", "\\"}) {
    const auto regex = Regex::compile(pattern, "The pattern");
    EXPECT_FALSE(regex.ok()) << pattern;
  }
}

TEST(Regex, GivesUpOnACatastrophicPatternInsteadOfHanging) {
  const Regex regex = Regex::compile("(?:a+)+[bd]", "test").value();
  RegexScratch scratch(RegexScratch::Texts::kWellFormed);
  EXPECT_EQ(regex.find(std::string(60, 'a') + "c", 0, scratch), std::nullopt);
  EXPECT_EQ(regex.find("aab", 0, scratch), std::nullopt) << "the budget is spent";
}

TEST(Regex, MatchesAMegabyteInOnePiece) {
  RegexScratch scratch(RegexScratch::Texts::kWellFormed);
  const Regex regex = Regex::compile(R"(\s*[\r\n]+|\s+(?!\S)|(?:\p{L}|\p{N})+)", "test").value();
  const std::string spaces(1'000'000, ' ');
  EXPECT_EQ(regex.find(spaces, 0, scratch), (ByteRange{0, spaces.size()}));
  const std::string letters(1'000'000, 'a');
  EXPECT_EQ(regex.find(letters, 0, scratch), (ByteRange{0, letters.size()}));
}

}  // namespace
}  // namespace quire::context
