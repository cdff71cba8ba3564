// Templates that attack: each must end in one sentence, within a second, on a 256 KiB stack.
#include <gtest/gtest.h>
#include <pthread.h>

#include <ctime>
#include <functional>
#include <string>

#include "context/jinja/template.h"

namespace quire::context::jinja {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStackBytes = 2048 << 10;  // the sanitizer's frames are several times larger
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr size_t kStackBytes = 2048 << 10;
#else
constexpr size_t kStackBytes = 256 << 10;
#endif
#else
constexpr size_t kStackBytes = 256 << 10;
#endif

/// Runs on a thread whose stack has kStackBytes.
void on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread{};
  const auto entry = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, entry, const_cast<std::function<void()>*>(&body)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

Result<std::string> render(const std::string& source) {
  QUIRE_TRY(const Template compiled, Template::parse(source));
  QUIRE_TRY(const Rendered rendered, compiled.render({}, {}));
  return std::string(rendered.text.bytes());
}

/// The error of a template that must fail.
std::string failure(const std::string& source) {
  std::string message;
  on_small_stack([&] {
    const Result<std::string> result = render(source);
    message = result.ok() ? "rendered " + std::to_string(result->size()) + " bytes"
                          : result.error().message;
  });
  return message;
}

std::string success(const std::string& source) {
  std::string text;
  on_small_stack([&] {
    const Result<std::string> result = render(source);
    text = result.ok() ? *result : "ERROR " + result.error().message;
  });
  return text;
}

std::string repeated(std::string_view part, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

constexpr const char* kWork = "line 1: the template does more work than a prompt can need";
constexpr const char* kDepth = "line 1: the template nests or recurses too deeply";

TEST(JinjaHostile, RefusesAHugeRange) {
  EXPECT_EQ(failure("{% for i in range(10**9) %}{% endfor %}"),
            "line 1: range() is limited to 100000 items");
  EXPECT_EQ(failure("{{ range(-9223372036854775807, 9223372036854775807) }}"),
            "line 1: range() is limited to 100000 items");
}

TEST(JinjaHostile, RefusesSixtyThousandOpenBrackets) {
  for (const char* bracket :
       {"(", "[", "{'a':", "-", "not ", "x[", "f(", "1 if ", "1 ** (", "x|f("}) {
    EXPECT_EQ(failure("{{ " + repeated(bracket, 60'000)), "line 1: the expression nests too deeply")
        << bracket;
  }
  EXPECT_EQ(failure("{% for " + repeated("(", 60'000)),
            "line 1: the names to assign to nest too deeply");
}

TEST(JinjaHostile, RefusesLongPostfixChainsThatWouldMakeADeepTree) {
  EXPECT_EQ(failure("{{ x" + repeated(".a", 60'000) + " }}"),
            "line 1: the expression nests too deeply");
  EXPECT_EQ(failure("{{ x" + repeated("|trim", 60'000) + " }}"),
            "line 1: the expression nests too deeply");
  EXPECT_EQ(failure("{{ 1" + repeated(" if 1", 60'000) + " }}"),
            "line 1: the expression nests too deeply");
}

TEST(JinjaHostile, AddsTenThousandOperandsWithoutRecursion) {
  EXPECT_EQ(success("{{ 0" + repeated(" + 1", 10'000) + " }}"), "10000");
  EXPECT_EQ(success("{{ ''" + repeated(" ~ 'a'", 100) + " }}"), repeated("a", 100));
  EXPECT_EQ(success("{{ 0" + repeated(" or 0", 10'000) + " or 5 }}"), "5");
}

TEST(JinjaHostile, RefusesDeeplyNestedStatements) {
  for (const char* tag : {"{% if true %}", "{% for a in [1] %}", "{% set x %}", "{% filter f %}"}) {
    const std::string message = failure(repeated(tag, 40'000));
    EXPECT_NE(message.find("too deeply"), std::string::npos) << message;
  }
}

TEST(JinjaHostile, RendersTheDeepestTreeTheParserAccepts) {
  const size_t deep = 45;
  EXPECT_EQ(success("{{ " + repeated("(", deep) + "1" + repeated(")", deep) + " }}"), "1");
  EXPECT_EQ(success(repeated("{% if true %}", 90) + "x" + repeated("{% endif %}", 90)), "x");
}

TEST(JinjaHostile, RefusesEndlessRecursion) {
  EXPECT_EQ(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), kDepth);
  EXPECT_EQ(failure("{% macro m(x) %}{% for i in [1] %}{% if true %}{{ m([[[x, 1 + 2]]]) }}"
                    "{% endif %}{% endfor %}{% endmacro %}{{ m(0) }}"),
            kDepth);
  EXPECT_EQ(failure("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}"), kDepth);
  EXPECT_EQ(failure("{% macro m() %}{% call m() %}{{ m() }}{{ caller() }}{% endcall %}"
                    "{% endmacro %}{{ m() }}"),
            kDepth);
}

TEST(JinjaHostile, RefusesExplodingStrings) {
  EXPECT_EQ(failure("{{ 'a' * 10**12 }}"), kWork);
  EXPECT_EQ(failure("{{ 'a' * 9223372036854775807 }}"), kWork);
  EXPECT_EQ(failure("{{ [1] * 10**10 }}"), kWork);
  EXPECT_EQ(failure("{% set ns = namespace(s='ab') %}{% for i in range(100) %}"
                    "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
            kWork);
  EXPECT_EQ(failure("{% set ns = namespace(s='ab') %}{% for i in range(100) %}"
                    "{% set ns.s = ns.s|replace('a', ns.s) %}{% endfor %}"),
            kWork);
  EXPECT_EQ(failure("{{ 'x'.ljust(10**11) }}"), kWork);
  EXPECT_EQ(failure("{{ '%2000000000d' % 1 }}"), "line 1: a format width is too large");
  EXPECT_EQ(failure("{{ 'x'|indent(10**11) }}"), kWork);
  EXPECT_EQ(failure("{% for i in range(100000) %}" + repeated("x", 10'000) + "{% endfor %}"),
            kWork);
}

TEST(JinjaHostile, RefusesEndlessWork) {
  EXPECT_EQ(failure("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}"
                    "{% endfor %}"),
            kWork);
  EXPECT_EQ(failure("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
                    "{% endmacro %}{{ m(22) }}"),
            kWork);
}

TEST(JinjaHostile, RefusesValuesThatNestTooDeeply) {
  EXPECT_EQ(failure("{% set ns = namespace(v=[]) %}{% for i in range(100000) %}"
                    "{% set ns.v = [ns.v] %}{% endfor %}"),
            kDepth);
  EXPECT_EQ(failure("{% set ns = namespace(v={}) %}{% for i in range(100000) %}"
                    "{% set ns.v = {'a': ns.v} %}{% endfor %}"),
            kDepth);
}

TEST(JinjaHostile, BoundsWorkOnValuesThatShareTheirParts) {
  const std::string doubling =
      "{% set ns = namespace(v=(1, 2), w=(1, 2)) %}{% for i in range(90) %}"
      "{% set ns.v = (ns.v, ns.v) %}{% set ns.w = (ns.w, ns.w) %}{% endfor %}";
  EXPECT_EQ(failure(doubling + "{{ ns.v }}"), kWork);
  EXPECT_EQ(failure(doubling + "{{ ns.v|tojson }}"), kWork);
  EXPECT_EQ(failure(doubling + "{{ ns.v == ns.w }}"), kWork);
  EXPECT_EQ(failure(doubling + "{{ ns.v < ns.w }}"), kWork);
  EXPECT_EQ(failure(doubling + "{{ {ns.v: 1} }}"), "line 1: unhashable type: 'tuple'");
}

TEST(JinjaHostile, PrintsAndComparesTheDeepestValue) {
  const std::string deep =
      "{% set ns = namespace(v=[], w=[]) %}{% for i in range(98) %}"
      "{% set ns.v = [ns.v] %}{% set ns.w = [ns.w] %}{% endfor %}";
  EXPECT_EQ(success(deep + "{{ ns.v|string|length }} {{ ns.v|tojson|length }} {{ ns.v == ns.w }} "
                           "{{ ns.v < ns.w }}"),
            "198 198 True False");
}

TEST(JinjaHostile, FreesLongChainsAndCyclesOfNamespaces) {
  EXPECT_EQ(success("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self.x }}"), "");
  EXPECT_EQ(success("{% set head = namespace(next=none) %}{% for i in range(90000) %}"
                    "{% set head.next = namespace(next=head.next) %}{% endfor %}"
                    "{% set head.next = none %}done"),
            "done");
  EXPECT_EQ(success("{% set ns = namespace(m=0) %}{% macro keep(f) %}{% macro g() %}{{ f }}"
                    "{% endmacro %}{% set ns.m = g %}{% endmacro %}{% for i in range(20000) %}"
                    "{{ keep(ns.m) }}{% endfor %}done"),
            "done");
}

TEST(JinjaHostile, DeniesTheWayToPythonsInnards) {
  EXPECT_EQ(success("[{{ ''.__class__ }}]"), "[]");
  for (const char* expression :
       {"''.__class__.__mro__[1].__subclasses__()", "[].append(1)", "{}.update(a=1)",
        "cycler.__init__.__globals__.os.popen('id').read()", "raise_exception.__globals__()",
        "namespace.__class__()"}) {
    const std::string message = failure(std::string("{{ ") + expression + " }}");
    EXPECT_NE(message.find("is unsafe"), std::string::npos) << message;
  }
}

TEST(JinjaHostile, RefusesOtherTemplates) {
  for (const char* tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'"}) {
    EXPECT_NE(failure(std::string("{% ") + tag + " %}").find("is not supported in chat templates"),
              std::string::npos);
  }
}

TEST(JinjaHostile, NeverGivesAWrongNumberForALargeOne) {
  for (const char* expression :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "2 ** 63", "3037000500 * 3037000500",
        "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)", "('9' * 30) | int",
        "1e300 | int", "99999999999999999999"}) {
    EXPECT_EQ(failure(std::string("{{ ") + expression + " }}").substr(0, 8), "line 1: ")
        << expression;
  }
}

TEST(JinjaHostile, EndsWithinASecond) {
  const bool sanitized = kStackBytes > (256 << 10);
  for (const char* attack : {"{% for a in range(100000) %}{% for b in range(100000) %}{{ a ~ b "
                             "}}{% endfor %}{% endfor %}",
                             "{% set ns = namespace(s='') %}{% for i in range(100000) %}"
                             "{% set ns.s = ns.s ~ 'abcdefghij' %}{% endfor %}",
                             "{% set a = 'ab ' * 200000 %}{% for i in range(100000) %}{{ "
                             "a.split()|length }}{% endfor %}"}) {
    const std::clock_t start = std::clock();
    EXPECT_EQ(failure(attack), kWork);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, sanitized ? 20.0 : 1.5) << attack;
  }
}

}  // namespace
}  // namespace quire::context::jinja
