#include "formats/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace quire::formats {
namespace {

Json parsed(std::string_view text) {
  return Json::parse(text, "the test").value();
}

std::string nested(int depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

double milliseconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

TEST(Json, ReadsEveryKindOfValue) {
  const Json json =
      parsed(R"({"n":null,"t":true,"i":-7,"d":2.5,"s":"a\u00e9\n","a":[1,[]],"o":{}})");

  EXPECT_TRUE(json.find("n")->is_null());
  EXPECT_EQ(json.find("t")->as_bool(), true);
  EXPECT_EQ(json.find("i")->as_int(), -7);
  EXPECT_EQ(json.find("i")->as_double(), -7.0);
  EXPECT_EQ(json.find("d")->as_double(), 2.5);
  EXPECT_EQ(json.find("d")->as_int(), std::nullopt);
  EXPECT_EQ(*json.find("s")->as_string(), "a\xC3\xA9\n");
  EXPECT_EQ(json.find("a")->as_array()->size(), 2u);
  EXPECT_TRUE(json.find("o")->as_object()->empty());
  EXPECT_EQ(json.find("absent"), nullptr);
  EXPECT_EQ(json.find("i")->find("x"), nullptr);
}

TEST(Json, ReadsIntegersBeyond64BitsAsDoubles) {
  EXPECT_EQ(parsed("9223372036854775807").as_int(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parsed("-9223372036854775808").as_int(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parsed("9223372036854775808").as_double(), 0x1p63);
  EXPECT_EQ(parsed("18446744073709551616").as_double(), 0x1p64);
  // tokenizer_config.json's way to say "no limit"; text beside it must stay as it is.
  const Json json = parsed(
      R"({"model_max_length": 1000000000000000019884624838656, "s": "\"12345678901234567890123\\",
          "small": 12, "f": 1.00000000000000000000001, "e": 1e5, "n": [-100000000000000000000000]})");
  EXPECT_EQ(json.find("model_max_length")->as_double(), 1e30);
  EXPECT_EQ(*json.find("s")->as_string(), "\"12345678901234567890123\\");
  EXPECT_EQ(json.find("small")->as_int(), 12);
  EXPECT_EQ(json.find("f")->as_double(), 1.0);
  EXPECT_EQ(json.find("n")->as_array()->front().as_double(), -1e23);
}

TEST(Json, RefusesWhatIsNoJsonAndNamesTheDocument) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "nul", "01", "1.", "'a'", "\"a", "[1] 2", "\"\\ud800\"",
        "\"\xFF\"", "NaN", "{a:1}", "\"\t\"", "12345678901234567890123x"}) {
    const auto result = Json::parse(text, "config.json of somewhere");
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kBadFile);
    EXPECT_NE(result.error().message.find("config.json of somewhere"), std::string::npos);
  }
}

TEST(Json, AllowsNestingOf128LevelsAndNoMore) {
  EXPECT_TRUE(Json::parse(nested(128), "x").ok());
  const auto deeper = Json::parse(nested(129), "x");
  ASSERT_FALSE(deeper.ok());
  EXPECT_NE(deeper.error().message.find("128"), std::string::npos);
  EXPECT_FALSE(Json::parse(nested(1'000'000), "x").ok());
}

TEST(Json, KeepsTheLastOfEqualKeysInTheFirstOnesPlace) {
  EXPECT_EQ(parsed(R"({"a":1,"b":2,"a":3})").dump(), R"({"a":3,"b":2})");
  std::string many = "{";
  for (int i = 0; i < 60; ++i)
    many += "\"k" + std::to_string(i % 20) + "\":" + std::to_string(i) + ",";
  many.back() = '}';
  const Json json = parsed(many);
  ASSERT_EQ(json.as_object()->size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ((*json.as_object())[i].first, "k" + std::to_string(i));
    EXPECT_EQ((*json.as_object())[i].second.as_int(), 40 + i);
  }
}

TEST(Json, ReadsAnObjectOf300000MembersInAMoment) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i)
    text += "\"token" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text.back() = '}';

  // Quadratic work would take minutes.
  const double ms = milliseconds_of([&] { EXPECT_EQ(parsed(text).as_object()->size(), 300'000u); });

  EXPECT_LT(ms, 15'000);
}

TEST(Json, KeepsOrderAndReadsBackWhatItWrites) {
  Json json;
  json.set("z", 1)
      .set("a", 2.0)
      .set("tiny", 5e-324)
      .set("text", "\x01\"\\\n\xE2\x82\xAC")
      .set("z", true);
  json.set("list", Json::Array{Json(), Json(uint64_t{1} << 63), Json(-0.0), Json(Json::Object{})});

  for (const int indent : {-1, 0, 2}) EXPECT_EQ(parsed(json.dump(indent)), json) << indent;
  EXPECT_EQ(json.dump(),
            "{\"z\":true,\"a\":2.0,\"tiny\":5e-324,\"text\":\"\\u0001\\\"\\\\\\n\xE2\x82\xAC\","
            "\"list\":[null,9.223372036854776e+18,-0.0,{}]}");
  EXPECT_EQ(parsed("[1,{\"a\":[]}]").dump(2), "[\n  1,\n  {\n    \"a\": []\n  }\n]");
}

TEST(Json, WritesNothingThatIsNoJson) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json("a\xFF").dump(), "\"a\xEF\xBF\xBD\"");
}

TEST(Json, RefusesToSetAMemberOfANumber) {
  Json number(1);
  EXPECT_DEATH(number.set("a", 1), "no object");
  EXPECT_DEATH(number.push_back(1), "no array");
}

TEST(Json, ReadsARealTokenizerQuickly) {
  const std::string path = QUIRE_SOURCE_DIR "/../shared/tokenizers/gemma3/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();

  const double ms = milliseconds_of([&] {
    const Json json = parsed(text.str());
    EXPECT_GT(json.find("model")->find("vocab")->as_object()->size(), 200'000u);
  });

  RecordProperty("milliseconds", static_cast<int>(ms));
  EXPECT_LT(ms, 15'000);
}

}  // namespace
}  // namespace quire::formats
