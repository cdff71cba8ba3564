// What the Jinja library does with one construct at a time; jinja_golden_test.cc has the mixtures.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "context/jinja/from_json.h"
#include "context/jinja/template.h"

namespace quire::context::jinja {
namespace {

using formats::Json;

// 2024-07-06 09:05:03, a Saturday.
const std::chrono::sys_seconds kNow =
    std::chrono::sys_days(std::chrono::year(2024) / 7 / 6) + std::chrono::seconds(9 * 3600 + 303);

Result<std::string> try_render(const std::string& source, const std::string& variables = "{}") {
  const Json json = Json::parse(variables, "the variables").value();
  Variables values;
  for (const auto& [name, member] : *json.as_object()) {
    values.emplace_back(name, from_json(member, kTemplateOrigin).value());
  }
  QUIRE_TRY(const Template compiled, Template::parse(source));
  QUIRE_TRY(const Rendered rendered, compiled.render(values, kNow));
  return std::string(rendered.text.bytes());
}

std::string render(const std::string& source, const std::string& variables = "{}") {
  const Result<std::string> text = try_render(source, variables);
  return text.ok() ? *text : "ERROR " + text.error().message;
}

TEST(Jinja, TakesOneNewlineAfterABlockAndTheIndentBeforeIt) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc"), "a\n  b\nc");
  EXPECT_EQ(render("a\n  {%+ if true %}b{% endif %}"), "a\n  b");
  EXPECT_EQ(render("a\n  {{ 1 }}\nb"), "a\n  1\nb");
  EXPECT_EQ(render("x {% if true +%}\ny{% endif %}"), "x \ny");
}

TEST(Jinja, StripsWhitespaceWhereAMinusAsks) {
  EXPECT_EQ(render("a \n {{- 1 -}} \n b"), "a1b");
  EXPECT_EQ(render("a \n {#- note -#} \n b"), "ab");
  EXPECT_EQ(render("a \n {%- raw -%} {{ x }} {%- endraw -%} b"), "a{{ x }}b");
}

TEST(Jinja, DropsOneNewlineAtTheEndAndNormalisesLineEnds) {
  EXPECT_EQ(render("a\r\nb\rc\n\n"), "a\nb\nc\n");
}

TEST(Jinja, PrintsValuesAsPythonDoes) {
  EXPECT_EQ(render("{{ [1, 1.0, 1e16, 1e-5, true, none, 'it\\'s', '\\n\\x00é\\u200b'] }}"),
            "[1, 1.0, 1e+16, 1e-05, True, None, \"it's\", '\\n\\x00é\\u200b']");
  EXPECT_EQ(render("{{ (1,) }}{{ {'a': [], 1: ()} }}{{ missing }}{{ 'x' }}"),
            "(1,){'a': [], 1: ()}x");
  EXPECT_EQ(render("{{ 0.1 + 0.2 }} {{ 1/2 }} {{ 7//2 }} {{ -7//2 }} {{ -7 % 3 }} {{ 2**10 }}"),
            "0.30000000000000004 0.5 3 -4 2 1024");
}

TEST(Jinja, WritesJsonAsPythonDoes) {
  const std::string variables = R"({"v": {"b": [1, 2.0, null, true], "a": "<é\"\n>", "e": {}}})";
  EXPECT_EQ(render("{{ v|tojson }}", variables),
            R"({"b": [1, 2.0, null, true], "a": "<é\"\n>", "e": {}})");
  EXPECT_EQ(render("{{ v|tojson(indent=1, sort_keys=true, ensure_ascii=true) }}", variables),
            "{\n \"a\": \"<\\u00e9\\\"\\n>\",\n \"b\": [\n  1,\n  2.0,\n  null,\n  true\n ],\n "
            "\"e\": {}\n}");
  EXPECT_EQ(render("{{ v|tojson(separators=(',', ':')) }}", variables),
            R"({"b":[1,2.0,null,true],"a":"<é\"\n>","e":{}})");
  EXPECT_EQ(render("{{ missing|tojson }}"),
            "ERROR line 1: an object of type Undefined cannot become JSON");
}

TEST(Jinja, UndefinedPrintsNothingAndFailsWhenUsed) {
  EXPECT_EQ(
      render("[{{ x }}{{ x|trim }}{% for a in x %}{% endfor %}{{ x|length }}{{ x is defined }}]"),
      "[0False]");
  EXPECT_EQ(render("\n{{ x.y }}"), "ERROR line 2: 'x' is undefined");
  EXPECT_EQ(render("{{ d.a.b }}", R"({"d": {}})"),
            "ERROR line 1: 'dict object' has no attribute 'a'");
  EXPECT_EQ(render("{{ 'a' + x }}"), "ERROR line 1: 'x' is undefined");
  EXPECT_EQ(render("{{ 'yes' if false }}"), "");
}

TEST(Jinja, FindsMethodsBeforeKeysBehindADotAndKeysFirstInBrackets) {
  const std::string variables = R"({"d": {"items": 1, "x": 2}})";
  EXPECT_EQ(render("{{ d.items is callable }} {{ d['items'] }} {{ d.x }} {{ d['x'] }}", variables),
            "True 1 2 2");
}

TEST(Jinja, SlicesTextByCharacters) {
  EXPECT_EQ(render("{{ 'añb日c'[1:4] }} {{ 'añb'[::-1] }} {{ 'añb'[-2] }} {{ [1,2,3,4][::-2] }}"),
            "ñb日 bña ñ [4, 2]");
}

TEST(Jinja, ALoopKnowsWhereItStands) {
  EXPECT_EQ(
      render(
          "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
          "{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} "
          "{% endfor %}"),
      "103TrueFalse3b 212FalseFalse3ac 321FalseTrue3b ");
  EXPECT_EQ(render("{% for x in [1,2,3,4] if x % 2 == 0 %}{{ x }}{{ loop.last }} {% endfor %}"),
            "2False 4True ");
  EXPECT_EQ(render("{% for x in [] %}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}"
                   "{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
            "023");
  EXPECT_EQ(render("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
                   R"({"d": {"b": 1, "a": 2}})"),
            "b=1;a=2;");
  EXPECT_EQ(render("{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }})"
                   "{% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}"),
            "(1@2(2@3))(3@2)");
}

TEST(Jinja, ALoopLooksAheadNoFurtherThanAsked) {
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for x in [1,2,3] if ns.n < 2 %}"
                   "{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}"),
            "12");
}

TEST(Jinja, ABodyAssignsOnlyItsOwnScope) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{% endfor %}{{ x }}"),
            "111");
  EXPECT_EQ(render("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(render("{% set ns = namespace(x=1) %}{% for i in [1] %}{% set ns.x = 2 %}{% endfor "
                   "%}{{ ns.x }}"),
            "2");
  EXPECT_EQ(render("{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}"), "1");
  EXPECT_EQ(render("{% set a, b = 1, 2 %}{{ a }}{{ b }}"), "12");
  EXPECT_EQ(render("{% set a, b = [1] %}"), "ERROR line 1: 1 values to unpack, expected 2");
}

TEST(Jinja, AMacroSeesWhatIsAroundItsDefinition) {
  EXPECT_EQ(render("{% macro m() %}{{ late }}{% endmacro %}{% set late = 'x' %}{{ m() }}"), "x");
  EXPECT_EQ(render("{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}"
                   "{{ m(1) }} {{ m(1, c=3) }} {{ m(b=2) }}"),
            "1B1 1B3 2");
  EXPECT_EQ(render("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, x=2) }}"),
            "(1,){'x': 2}");
  EXPECT_EQ(render("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "ERROR line 1: macro 'm' takes not more than 1 argument(s)");
  EXPECT_EQ(render("{% macro m(a) %}{% endmacro %}{{ m(z=2) }}"),
            "ERROR line 1: macro 'm' takes no keyword argument 'z'");
}

TEST(Jinja, ACallBlockHandsItsBodyToTheMacro) {
  EXPECT_EQ(
      render("{% macro list(xs) %}{% for x in xs %}<{{ caller(x) }}>{% endfor %}{% endmacro %}"
             "{% call(x) list([1, 2]) %}{{ x * 10 }}{% endcall %}"),
      "<10><20>");
}

TEST(Jinja, CapturesBlocksAndFiltersThem) {
  EXPECT_EQ(render("{% set x %} a {{ 1 }} {% endset %}[{{ x }}]"), "[ a 1 ]");
  EXPECT_EQ(render("{% set x | trim | upper %} a {% endset %}[{{ x }}]"), "[A]");
  EXPECT_EQ(render("{% filter upper %}a{% filter trim %} b {% endfilter %}{% endfilter %}"), "AB");
}

TEST(Jinja, TheGenerationTagRendersItsBody) {
  EXPECT_EQ(render("a{%- generation %}\n b {%- endgeneration %}\nc"), "a bc");
}

TEST(Jinja, OperatorsBindAsInJinja) {
  EXPECT_EQ(render("{{ 1 ~ 2 * 3 }} {{ not 1 == 2 }} {{ 2 + 3|string|length }} {{ -1|abs }}"),
            "16 True 3 1");
  EXPECT_EQ(
      render(
          "{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 in [1] and 2 not in [1] }} {{ 0 or '' or 'x' }}"),
      "True False True x");
  EXPECT_EQ(render("{{ 'a' if 0 else 'b' if 0 else 'c' }}{{ 1 is odd and 2 is even }}"), "cTrue");
}

TEST(Jinja, FormatsWithPercent) {
  EXPECT_EQ(render("{{ '%s|%5d|%-4s|%05.1f|%x|%%|%r|%(k)s' }}"),
            "%s|%5d|%-4s|%05.1f|%x|%%|%r|%(k)s");
  EXPECT_EQ(render("{{ '%s|%5d|%-4s|%05.1f|%x|%%|%r' % ('a', 42, 'b', 2.25, 255, 'c') }}"),
            "a|   42|b   |002.2|ff|%|'c'");
  EXPECT_EQ(render("{{ '%(k)s' % {'k': 1} }} {{ '{} {x}'.format(1, x=2) }}"), "1 1 2");
  EXPECT_EQ(render("{{ '%s' % (1, 2) }}"),
            "ERROR line 1: not all arguments were used by the format string");
}

TEST(Jinja, SortsGroupsAndSelects) {
  const std::string people =
      R"({"p": [{"n": "bob", "a": 3}, {"n": "Al", "a": 1}, {"n": "Cy", "a": 3}]})";
  EXPECT_EQ(render("{{ p|sort(attribute='a,n')|map(attribute='n')|join(' ') }}", people),
            "Al bob Cy");
  EXPECT_EQ(render("{{ p|selectattr('a', 'gt', 1)|map(attribute='n')|list }}", people),
            "['bob', 'Cy']");
  EXPECT_EQ(render("{% for a, g in p|groupby('a') %}{{ a }}:{{ g|length }} {% endfor %}", people),
            "1:1 3:2 ");
  EXPECT_EQ(render("{{ ['b', 'A', 'a']|unique|list }}{{ {'b': 1, 'A': 2}|dictsort }}"),
            "['b', 'A'][('A', 2), ('b', 1)]");
  EXPECT_EQ(render("{{ [1, 'a']|sort }}"),
            "ERROR line 1: '<' is not supported between 'str' and 'int'");
}

TEST(Jinja, AGeneratorIsUsedUpByItsFirstReader) {
  EXPECT_EQ(render("{% set g = [1, 2]|map('string') %}{{ g|list }}{{ g|list }}{{ g is sequence }}"),
            "['1', '2'][]False");
  EXPECT_EQ(render("{{ [1]|map('string')|length }}"),
            "ERROR line 1: object of type 'generator' has no len()");
}

TEST(Jinja, MapsCaseBeyondAscii) {
  EXPECT_EQ(
      render("{{ 'straße'|upper }} {{ 'ΣΑΣ'|lower }} {{ 'éA bc'.title() }} {{ 'ǆx'|capitalize }}"),
      "STRASSE σας Éa Bc ǅx");
}

TEST(Jinja, TellsTheTimeItWasGiven) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %-d %B, %A %a %H:%M:%S %I %p %j %y %% %F') }}"),
            "06 Jul 2024, 6 July, Saturday Sat 09:05:03 09 AM 188 24 % 2024-07-06");
}

TEST(Jinja, RaisesTheTemplatesOwnMessage) {
  const Result<std::string> text = try_render("\n\n{{ raise_exception('Only ' ~ 'users') }}");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().message, "line 3: Only users");
  EXPECT_EQ(text.error().code, ErrorCode::kUsage);
}

TEST(Jinja, SyntaxErrorsNameTheirLine) {
  EXPECT_EQ(render("\n{% if x %}"), "ERROR line 2: the template ends before {% endif %}");
  EXPECT_EQ(render("{{ 1 +\n }}"), "ERROR line 2: expected an expression, got '}}'");
  EXPECT_EQ(render("{% endfor %}"), "ERROR line 1: unknown or misplaced tag 'endfor'");
  EXPECT_EQ(render("{{ (1] }}"), "ERROR line 1: unexpected ']', expected ')'");
  EXPECT_EQ(render("a\n{{ 'x }}"), "ERROR line 2: a string is never closed");
  EXPECT_EQ(render("a\n{# x"), "ERROR line 2: a comment {# is never closed by #}");
  EXPECT_EQ(render("{% break %}"), "ERROR line 1: {% break %} stands outside of a loop");
  EXPECT_EQ(render("{{ 1|nosuch }}"), "ERROR line 1: there is no filter named 'nosuch'");
  EXPECT_EQ(render("{{ 1 is nosuch }}"), "ERROR line 1: there is no test named 'nosuch'");
  EXPECT_EQ(render("{{ '\\ud800' }}"), "ERROR line 1: a string has an escape that is no character");
}

TEST(Jinja, AnUnknownFilterInADeadBranchDoesNotMatter) {
  EXPECT_EQ(render("{% if false %}{{ 1|nosuch }}{% endif %}ok"), "ok");
}

}  // namespace
}  // namespace quire::context::jinja
