// Normalizers: what they change, what they leave, and that the origin of every byte is kept.
#include "context/tokenizer/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::context {
namespace {

std::string normalized(std::string_view text, NormalizerStep step) {
  std::vector<NormalizerStep> steps;
  steps.push_back(std::move(step));
  AlignedText aligned(text, 0, Tracking::kOff);
  RegexScratch scratch(RegexScratch::Texts::kAny);
  Normalizer(std::move(steps)).apply(aligned, scratch);
  return std::string(aligned.text());
}

TEST(Normalizer, ComposesDecomposesAndMapsCompatibilityCharacters) {
  EXPECT_EQ(normalized("cafe\u0301 \u212B", UnicodeForm::kNfc), "caf\u00E9 \u00C5");
  EXPECT_EQ(normalized("caf\u00E9 \uD55C", UnicodeForm::kNfd), "cafe\u0301 \u1112\u1161\u11AB");
  EXPECT_EQ(normalized("\uFB01 \u2460 \u1112\u1161\u11AB", UnicodeForm::kNfkc), "fi 1 \uD55C");
  EXPECT_EQ(normalized("\uFDFA", UnicodeForm::kNfkd).size(), 33u) << "18 characters from one";
}

TEST(Normalizer, OrdersMarksByClassAndKeepsEqualClassesInOrder) {
  EXPECT_EQ(normalized("q\u0307\u0323", UnicodeForm::kNfc), "q\u0323\u0307");
  EXPECT_EQ(normalized("a\u0301\u0300", UnicodeForm::kNfc), "\u00E1\u0300");
}

TEST(Normalizer, ComposesAcrossTheCharacterBeforeAStretch) {
  EXPECT_EQ(normalized("\uD558\u11AB", UnicodeForm::kNfc), "\uD55C");  // Hangul LV + T
  EXPECT_EQ(normalized("\u304B\u3099", UnicodeForm::kNfc), "\u304C");  // kana + sound mark
  EXPECT_EQ(normalized("\u0418\u0306", UnicodeForm::kNfc), "\u0419");  // Russian
  EXPECT_EQ(normalized("s\u0323\u0307", UnicodeForm::kNfc), "\u1E69");
}

TEST(Normalizer, LeavesMarksAfterUnicode9AloneAsHuggingFaceDoes) {
  EXPECT_EQ(normalized("\u035F\u089C", UnicodeForm::kNfc), "\u035F\u089C");
  EXPECT_EQ(normalized("a\u0898\u0301", UnicodeForm::kNfc), "a\u0898\u0301");
}

TEST(Normalizer, KeepsIllFormedBytes) {
  EXPECT_EQ(normalized("e\xFF\u0301x\xC3", UnicodeForm::kNfc), "e\xFF\u0301x\xC3");
}

TEST(Normalizer, TakesLinearTimeForAMegabyteOfMarks) {
  std::string marks = "a";
  while (marks.size() < 1'000'000) marks += "\u0301\u0323";
  const std::string ordered = normalized(marks, UnicodeForm::kNfd);
  EXPECT_EQ(ordered.substr(1, 2), "\u0323");
  EXPECT_EQ(ordered.substr(ordered.size() - 2), "\u0301");
}

TEST(Normalizer, PrependsToTextsThatAreNotEmpty) {
  EXPECT_EQ(normalized("a", Prepend{"_"}), "_a");
  EXPECT_EQ(normalized("", Prepend{"_"}), "");
}

TEST(Normalizer, ReplacesAndStrips) {
  EXPECT_EQ(normalized("a b  c", Replace{Pattern::literal(" "), "__"}), "a__b____c");
  EXPECT_EQ(
      normalized("a1b22", Replace{Pattern::regex(Regex::compile("\\d+", "test").value()), ""}),
      "ab");
  EXPECT_EQ(normalized("\u00A0 a b\n", Strip{true, true}), "a b");
  EXPECT_EQ(normalized(" a ", Strip{false, true}), " a");
  EXPECT_EQ(normalized("  ", Strip{true, true}), "");
}

TEST(Normalizer, KnowsWhereEveryByteCameFrom) {
  std::vector<NormalizerStep> steps;
  steps.push_back(UnicodeForm::kNfc);
  steps.push_back(Prepend{"_"});
  steps.push_back(Replace{Pattern::literal(" "), "__"});
  AlignedText text("x e\u0301y", 10, Tracking::kOn);
  RegexScratch scratch(RegexScratch::Texts::kAny);
  Normalizer(std::move(steps)).apply(text, scratch);

  ASSERT_EQ(text.text(), "_x__\u00E9y");
  std::vector<size_t> origins;
  for (size_t i = 0; i <= text.text().size(); ++i) origins.push_back(text.origin(i));
  EXPECT_THAT(origins, testing::ElementsAre(10, 10, 11, 11, 12, 12, 15, 16));
}

}  // namespace
}  // namespace quire::context
