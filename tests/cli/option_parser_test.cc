#include "cli/option_parser.h"

#include <gmock/gmock.h>

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::vector<std::string> texts, positionals;
  std::optional<int64_t> number;
  std::vector<int64_t> list;
  bool flag = false;
  std::optional<int64_t> top;
  Result<bool> outcome = false;
};

Parsed parse(const std::vector<std::string>& args) {
  Parsed p;
  OptionParser parser("quire test");
  parser.positional(p.positionals, 2);
  parser.add({{"-p", "--prompt"}, "TEXT", "text", append(p.texts)});
  parser.add({{"-n", "--number"}, "N", "number", store_int(p.number, 1, 100)});
  parser.add({{"-ctk"}, "N", "number", store_int(p.number, 1, 100)});
  parser.add({{"--list"}, "LIST", "list", store_list(p.list, 0, 100)});
  parser.add({{"--flag"}, "", "flag", set(p.flag)});
  parser.add({{"--top"}, "[N]", "top", [&p](std::string_view, std::string_view v) -> Result<void> {
                p.top = v.empty() ? 0 : parse_int(v);
                return {};
              }});
  parser.add({{"-ngl"}, "N", "", refuse("no GPU here")});
  p.outcome = parser.parse(args);
  return p;
}

TEST(OptionParser, TakesAValueWhateverItLooksLike) {
  const Parsed p = parse({"-p", "[INST] a, b [/INST]", "-p", "--flag", "-p", "", "--prompt=a=b"});
  ASSERT_TRUE(p.outcome.ok());
  EXPECT_THAT(p.texts, ElementsAre("[INST] a, b [/INST]", "--flag", "", "a=b"));
  EXPECT_FALSE(p.flag);
}

TEST(OptionParser, AcceptsShortOptionsOfSeveralLettersAndAttachedValues) {
  EXPECT_EQ(parse({"-ctk", "7"}).number, 7);
  EXPECT_EQ(parse({"-n8"}).number, 8);
  EXPECT_EQ(parse({"--number=9"}).number, 9);
  EXPECT_THAT(parse({"--list", "1,0,3"}).list, ElementsAre(1, 0, 3));
}

TEST(OptionParser, TakesAnOptionalValueOnlyIfItIsANumber) {
  EXPECT_EQ(parse({"--top"}).top, 0);
  EXPECT_EQ(parse({"--top", "5"}).top, 5);
  const Parsed p = parse({"--top", "model"});
  EXPECT_EQ(p.top, 0);
  EXPECT_THAT(p.positionals, ElementsAre("model"));
}

TEST(OptionParser, TreatsEverythingAfterTwoDashesAsPositional) {
  EXPECT_THAT(parse({"--", "--flag", "-n"}).positionals, ElementsAre("--flag", "-n"));
}

TEST(OptionParser, NamesTheOptionThatIsWrong) {
  const auto message = [](const std::vector<std::string>& args) {
    const Parsed p = parse(args);
    return p.outcome.ok() ? std::string("accepted") : p.outcome.error().message;
  };
  EXPECT_THAT(message({"--promt", "x"}), HasSubstr("did you mean --prompt?"));
  EXPECT_THAT(message({"--zebra"}), HasSubstr("unknown option --zebra"));
  EXPECT_THAT(message({"-n", "0"}), HasSubstr("-n wants a whole number from 1 to 100, not '0'"));
  EXPECT_THAT(message({"-n", "1x"}), HasSubstr("not '1x'"));
  EXPECT_THAT(message({"--list", "1,,2"}), HasSubstr("--list wants"));
  EXPECT_THAT(message({"-n"}), HasSubstr("-n needs a value"));
  EXPECT_THAT(message({"--flag=1"}), HasSubstr("--flag takes no value"));
  EXPECT_THAT(message({"-ngl", "99"}), HasSubstr("-ngl: no GPU here"));
  EXPECT_THAT(message({"a", "b", "c"}), HasSubstr("'c' is one argument too many"));
}

TEST(OptionParser, DoesNotListRefusedOptionsInItsHelp) {
  OptionParser parser("quire test");
  bool flag = false;
  parser.add({{"--flag"}, "", "a flag", set(flag)});
  parser.add({{"-ngl"}, "N", "", refuse("no")});
  EXPECT_THAT(parser.help(), HasSubstr("--flag"));
  EXPECT_THAT(parser.help(), ::testing::Not(HasSubstr("-ngl")));
}

}  // namespace
}  // namespace quire::cli
