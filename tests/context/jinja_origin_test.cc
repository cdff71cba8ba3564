// Text from outside stays marked as such through every operation.
#include <gtest/gtest.h>

#include <string>

#include "context/jinja/from_json.h"
#include "context/jinja/template.h"

namespace quire::context::jinja {
namespace {

using formats::Json;

/// The output with <...> around what came from variable `m` and (...) around what came from `n`.
std::string marked(const std::string& source, const std::string& m,
                   const std::string& n = "\"N\"") {
  const Variables variables{
      {"m", from_json(Json::parse(m, "m").value(), 1).value()},
      {"n", from_json(Json::parse(n, "n").value(), 2).value()},
  };
  const auto compiled = Template::parse(source);
  if (!compiled.ok()) return compiled.error().message;
  const auto rendered = compiled->render(variables, {});
  if (!rendered.ok()) return rendered.error().message;
  std::string out;
  size_t begin = 0;
  for (const OriginRun& run : rendered->text.runs()) {
    static constexpr const char* kOpen[] = {"", "<", "("};
    static constexpr const char* kClose[] = {"", ">", ")"};
    out += kOpen[run.origin];
    out += rendered->text.bytes().substr(begin, run.end - begin);
    out += kClose[run.origin];
    begin = run.end;
  }
  return out;
}

TEST(JinjaOrigin, SurvivesConcatenationAndPrinting) {
  EXPECT_EQ(marked("a{{ m }}b", "\"M\""), "a<M>b");
  EXPECT_EQ(marked("{{ 'a' + m + 'b' }}{{ 'x' ~ n ~ m }}", "\"M\""), "a<M>bx(N)<M>");
}

TEST(JinjaOrigin, SurvivesTrimSliceAndSplit) {
  EXPECT_EQ(marked("{{ ('  x' + m)|trim }}", "\" M  \""), "x< M>");
  EXPECT_EQ(marked("{{ ('ab' + m)[1:4] }}|{{ ('ab' + m)[::-1] }}", "\"日本語\""),
            "b<日本>|<語本日>ba");
  EXPECT_EQ(marked("{{ (m + ',t').split(',')|join('/') }}", "\"a,b\""), "<a>/<b>/t");
  EXPECT_EQ(marked("{{ ('a' + m).partition('-')[2] }}", "\"x-y\""), "<y>");
}

TEST(JinjaOrigin, SurvivesReplacementAndCaseMapping) {
  EXPECT_EQ(marked("{{ m|replace('o', n) }}", "\"foot\""), "<f>(NN)<t>");
  EXPECT_EQ(marked("{{ ('ab' + m)|upper }}{{ ('ab ' + m)|title }}", "\"ß c\""),
            "AB<SS C>Ab <SS C>");
  EXPECT_EQ(marked("{{ ('a\n' + m)|indent(2) }}", "\"x\\ny\""), "a\n  <x>\n  <y>");
}

TEST(JinjaOrigin, SurvivesFormatting) {
  EXPECT_EQ(marked("{{ '[%s] %5s' % (m, n) }}", "\"M\""), "[<M>]     (N)");
  EXPECT_EQ(marked("{{ '[{}]'.format(m) }}", "\"M\""), "[<M>]");
  EXPECT_EQ(marked("{{ m % n }}", "\"a%sb\""), "<a>(N)<b>");
  EXPECT_EQ(marked("{{ [m, 'x', n]|join(', ') }}", "\"M\""), "<M>, x, (N)");
}

TEST(JinjaOrigin, CoversWholeJsonOfAContainer) {
  EXPECT_EQ(marked("{{ m|tojson }}", R"({"k": ["v\n", 1, null]})"), R"(<{"k": ["v\n", 1, null]}>)");
  EXPECT_EQ(marked("{{ {'t': m}|tojson }}", R"([1])"), R"({"t": <[1]>})");
  EXPECT_EQ(marked("{{ m }} {{ [m] }}", R"({"k": 1})"), "<{'k': 1}> [<{'k': 1}>]");
}

TEST(JinjaOrigin, FollowsNumbersAndMissingValues) {
  EXPECT_EQ(marked("{{ m }} {{ m + 1 }} {{ m|string }} {{ 2 }}", "7"), "<7> <8> <7> 2");
  EXPECT_EQ(marked("{{ m }}", "null"), "<None>");
}

TEST(JinjaOrigin, PassesThroughMacrosLoopsAndCapturedBlocks) {
  EXPECT_EQ(marked("{% macro f(x) %}-{{ x }}-{% endmacro %}{{ f(m)|trim('-') }}", "\"M\""), "<M>");
  EXPECT_EQ(marked("{% for c in m %}{{ c }},{% endfor %}", "\"ab\""), "<a>,<b>,");
  EXPECT_EQ(marked("{% set x %}a{{ m }}{% endset %}{{ x + n }}", "\"M\""), "a<M>(N)");
  EXPECT_EQ(marked("{% for k, v in m|items %}{{ k }}={{ v }};{% endfor %}", R"({"a": "b"})"),
            "<a>=<b>;");
}

}  // namespace
}  // namespace quire::context::jinja
