#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

TEST(Utf8, KeepsBackAnUnfinishedCharacterOnly) {
  const std::string euro = "\xE2\x82\xAC";
  EXPECT_EQ(utf8_incomplete_tail("a" + euro.substr(0, 1)), 1u);
  EXPECT_EQ(utf8_incomplete_tail("a" + euro.substr(0, 2)), 2u);
  EXPECT_EQ(utf8_incomplete_tail("a" + euro), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\xF0\x9F\x98"), 3u);
}

TEST(Utf8, DoesNotWaitForBytesThatCannotComplete) {
  EXPECT_EQ(utf8_incomplete_tail("\xFF"), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\xED\xA0"), 0u);  // a surrogate: never valid
  EXPECT_EQ(utf8_incomplete_tail("\x80\x80"), 0u);
}

TEST(Utf8, RefusesOverlongAndSurrogateForms) {
  EXPECT_FALSE(utf8_is_valid("\xC0\x80"));
  EXPECT_FALSE(utf8_is_valid("\xE0\x80\x80"));
  EXPECT_FALSE(utf8_is_valid("\xED\xA0\x80"));
  EXPECT_FALSE(utf8_is_valid("\xF4\x90\x80\x80"));
  EXPECT_TRUE(utf8_is_valid("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
}

TEST(Utf8, RoundTripsEveryScalarValue) {
  for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    utf8_append(text, c);
    const Utf8Char got = utf8_next(text);
    ASSERT_TRUE(got.valid);
    ASSERT_EQ(got.code_point, c);
    ASSERT_EQ(static_cast<size_t>(got.bytes), text.size());
  }
}

}  // namespace
}  // namespace quire
