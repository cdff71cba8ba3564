#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ByteSize, CountsInBinaryUnlessTheUnitSaysB) {
  EXPECT_EQ(parse_byte_size("24G"), int64_t{24} << 30);
  EXPECT_EQ(parse_byte_size("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(parse_byte_size("24gib"), int64_t{24} << 30);
  EXPECT_EQ(parse_byte_size("24GB"), int64_t{24'000'000'000});
  EXPECT_EQ(parse_byte_size("1.5K"), 1536);
  EXPECT_EQ(parse_byte_size("200 M"), int64_t{200} << 20);
  EXPECT_EQ(parse_byte_size("4096"), 4096);
  EXPECT_EQ(parse_byte_size("0"), 0);
}

TEST(ByteSize, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "G", "-1", "1X", "1.5", "1..5G", "1GiBs", "9999999999T", "nan", "0x10"}) {
    EXPECT_EQ(parse_byte_size(text), std::nullopt) << text;
  }
}

TEST(ByteSize, PrintsThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(23'040), "22.5 KiB");
  EXPECT_EQ(format_bytes(1'879'048'192), "1.75 GiB");
  EXPECT_EQ(format_bytes((int64_t{1} << 20) - 1), "1.00 MiB");
}

TEST(ByteSize, GroupsDigits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'879'048'192), "1,879,048,192");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

}  // namespace
}  // namespace quire
