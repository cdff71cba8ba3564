#include "formats/json_cursor.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/json.h"

namespace quire::formats {
namespace {

TEST(JsonCursor, ReadsStringsAsJsonDoes) {
  for (const char* text : {R"("")",
                           R"("abc")",
                           R"(" \" \\ \/ \b \f \n \r \t ")",
                           R"("\u0041\u00e9\u20AC\ud83d\ude00")",
                           "\"\xE2\x82\xAC\"",
                           R"("\ud800")",
                           R"("\ud800\u0041")",
                           R"("\udc00")",
                           R"("\u12")",
                           R"("\u12G4")",
                           R"("\u+123")",
                           R"("\x")",
                           R"("\)",
                           R"(")",
                           R"("abc)",
                           "\"a\nb\"",
                           "'a'",
                           "a",
                           "",
                           "\"\\u0000\""}) {
    JsonCursor cursor(text);
    const auto taken = cursor.take_string();
    const auto json = Json::parse(text, "the test");
    ASSERT_EQ(taken.has_value() && cursor.at_end(), json.ok()) << text;
    if (taken) {
      EXPECT_EQ(*taken, *json->as_string()) << text;
    }
  }
}

TEST(JsonCursor, ReadsNonNegativeIntegersOnly) {
  EXPECT_EQ(JsonCursor(" 0").take_unsigned(), 0u);
  EXPECT_EQ(JsonCursor("18446744073709551615").take_unsigned(), ~0ull);
  for (const char* text :
       {"", "-1", "+1", "01", "1.0", "1e3", "18446744073709551616", "x", "\"1\""}) {
    EXPECT_EQ(JsonCursor(text).take_unsigned(), std::nullopt) << text;
  }
}

TEST(JsonCursor, TakesPunctuationAcrossWhiteSpace) {
  JsonCursor cursor(" \t\r\n[ , ]");
  EXPECT_FALSE(cursor.take('{'));
  EXPECT_TRUE(cursor.take('['));
  EXPECT_TRUE(cursor.take(','));
  EXPECT_FALSE(cursor.at_end());
  EXPECT_TRUE(cursor.take(']'));
  EXPECT_TRUE(cursor.at_end());
  EXPECT_FALSE(cursor.take(']'));
}

}  // namespace
}  // namespace quire::formats
