// What full-text search indexes and asks for.
#include "context/search_text.h"

#include <gmock/gmock.h>

namespace quire::context {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SearchText, TakesRunsWithoutSpacesApart) {
  const SearchText text = search_text("KV缓存页 and 水");
  EXPECT_EQ(text.bigrams, "缓存 存页 页 水");
  EXPECT_THAT(text.words, HasSubstr("KV"));
  EXPECT_THAT(text.words, HasSubstr("and"));
  EXPECT_THAT(text.words, ::testing::Not(HasSubstr("缓")));
}

TEST(SearchText, NormalizesBothSides) {
  EXPECT_EQ(search_text("ﾃｽﾄ").bigrams, search_text("テスト").bigrams);
  EXPECT_EQ(search_text("Ｑｕｉｒｅ").words, "Quire");
}

TEST(SearchText, SpellsIdeographsThatCameAfterUnicode61) {
  EXPECT_EQ(search_text("\U0002B820水").bigrams, "u2b820水 水");
}

TEST(SearchText, TakesAnyBytes) {
  const SearchText text = search_text(std::string_view("a\0b\xff\xe7\xbc", 6));
  EXPECT_EQ(text.words.find('\0'), std::string::npos);
  EXPECT_THAT(search_text("").words, IsEmpty());
}

TEST(MatchExpression, QuotesWhatTheUserWrote) {
  EXPECT_EQ(match_expression("page NEAR cache", MatchTerms::kAll),
            "words : \"page\" AND words : \"NEAR\" AND words : \"cache\"");
  EXPECT_EQ(match_expression("say \"hi\"*", MatchTerms::kAll),
            "words : \"say\" AND words : \"\"\"hi\"\"*\"");
}

TEST(MatchExpression, AsksForRunsAsPhrasesOrForAnyOfTheirBigrams) {
  EXPECT_EQ(match_expression("缓存页", MatchTerms::kAll), "bigrams : \"缓存 存页\"");
  EXPECT_EQ(match_expression("缓存页", MatchTerms::kAny), "bigrams : (\"缓存\" OR \"存页\")");
  EXPECT_EQ(match_expression("页", MatchTerms::kAll), "bigrams : \"页\" *");
  EXPECT_EQ(match_expression("KV缓存", MatchTerms::kAll), "words : \"KV\" AND bigrams : \"缓存\"");
}

TEST(MatchExpression, IsEmptyWhereThereIsNothingToLookFor) {
  EXPECT_THAT(match_expression("", MatchTerms::kAll), IsEmpty());
  EXPECT_THAT(match_expression(" ?! \t\n \"*", MatchTerms::kAny), IsEmpty());
  EXPECT_THAT(match_expression(std::string_view("\0\0", 2), MatchTerms::kAny), IsEmpty());
}

TEST(QueryTerms, AreWordsAndRuns) {
  EXPECT_THAT(query_terms("the KV缓存 page."), ElementsAre("the", "KV", "缓存", "page."));
}

TEST(Excerpt, StandsAroundTheFirstTermInOneLine) {
  const std::string text = std::string(200, 'x') + " the\nPAGE table " + std::string(200, 'y');
  const std::string shown = excerpt(text, "page", 40);
  EXPECT_THAT(shown, HasSubstr("the PAGE table"));
  EXPECT_TRUE(shown.starts_with("…")) << shown;
  EXPECT_TRUE(shown.ends_with("…")) << shown;
  EXPECT_EQ(excerpt("short", "absent", 40), "short");
  EXPECT_EQ(excerpt("", "absent", 40), "");
}

}  // namespace
}  // namespace quire::context
