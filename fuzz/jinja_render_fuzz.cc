// jinja_render_fuzz.cc: templates that parse, made from the fuzzer's bytes, so that execution is
// what is fuzzed: every byte chooses a piece of a grammar.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "jinja_conversation.h"

namespace {

/// Writes a random template of the grammar that chat templates use.
class Writer {
 public:
  Writer(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  std::string write() {
    while (size_ > 0 && out_.size() < 20'000) statement(0);
    return std::move(out_);
  }

 private:
  uint8_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }

  template <size_t N>
  std::string_view one_of(const std::array<std::string_view, N>& choices) {
    return choices[next() % N];
  }

  void atom() {
    out_ += one_of(std::to_array<std::string_view>({"messages",
                                                    "m",
                                                    "m.content",
                                                    "m['role']",
                                                    "tools",
                                                    "x",
                                                    "ns.v",
                                                    "loop.index0",
                                                    "loop.last",
                                                    "'a'",
                                                    "\"\\n\"",
                                                    "''",
                                                    "0",
                                                    "1",
                                                    "-1",
                                                    "2.5",
                                                    "10**9",
                                                    "true",
                                                    "none",
                                                    "[]",
                                                    "{}",
                                                    "[1, 'b', none]",
                                                    "{'k': [1]}",
                                                    "range(3)",
                                                    "namespace(v=0)",
                                                    "messages[0]",
                                                    "dict(a=1)",
                                                    "undefined_name",
                                                    "joiner()",
                                                    "cycler(1, 2)",
                                                    "messages[1:]",
                                                    "messages[::-1]"}));
  }

  void expression(int depth) {
    const uint8_t kind = depth > 4 ? 0 : next() % 10;
    if (kind < 3) return atom();
    if (kind < 5) {
      out_ += '(';
      expression(depth + 1);
      out_ += one_of(std::to_array<std::string_view>(
          {" + ", " - ", " * ", " / ", " // ", " % ", " ** ", " ~ ", " == ", " != ", " < ",
           " >= ", " in ", " not in ", " and ", " or "}));
      expression(depth + 1);
      out_ += ')';
    } else if (kind == 5) {
      out_ += "(";
      expression(depth + 1);
      out_ += ")";
      out_ += one_of(std::to_array<std::string_view>({" | tojson",
                                                      " | tojson(indent=2)",
                                                      " | trim",
                                                      " | length",
                                                      " | string",
                                                      " | items",
                                                      " | lower",
                                                      " | list",
                                                      " | join(', ')",
                                                      " | first",
                                                      " | last",
                                                      " | upper",
                                                      " | title",
                                                      " | int",
                                                      " | replace('a', 'bb')",
                                                      " | map(attribute='role')",
                                                      " | selectattr('role')",
                                                      " | reject('none')",
                                                      " | default('d')",
                                                      " | indent(2)",
                                                      " | dictsort",
                                                      " | unique",
                                                      " | sort",
                                                      " | min",
                                                      " | sum",
                                                      " | batch(2)",
                                                      " | reverse",
                                                      " | capitalize",
                                                      " | safe",
                                                      " | center(9)",
                                                      " | wordwrap(5)",
                                                      " | groupby('role')",
                                                      " | round(1)",
                                                      " | format(1)"}));
    } else if (kind == 6) {
      out_ += "(";
      expression(depth + 1);
      out_ += ")";
      out_ += one_of(std::to_array<std::string_view>(
          {".strip()", ".split('a')", ".upper()", ".items()", ".get('k')", ".startswith('a')",
           ".replace('a', 'b')", ".keys()", ".title()", "[0]", "[-1]", "[1:3]", ".k", "['k']",
           ".rstrip('\\n')", ".splitlines()", ".join(['a', 'b'])", ".count('a')", ".__class__"}));
    } else if (kind == 7) {
      out_ += "(";
      expression(depth + 1);
      out_ += one_of(std::to_array<std::string_view>(
          {" is defined", " is none", " is string", " is mapping", " is iterable", " is not number",
           " is boolean", " is sequence", " is odd"}));
      out_ += ")";
    } else if (kind == 8) {
      out_ += "(";
      expression(depth + 1);
      out_ += " if ";
      expression(depth + 1);
      out_ += " else ";
      expression(depth + 1);
      out_ += ")";
    } else {
      out_ +=
          one_of(std::to_array<std::string_view>({"f(", "range(", "strftime_now(", "not (", "-("}));
      expression(depth + 1);
      out_ += ")";
    }
  }

  void body(int depth) {
    for (uint8_t left = next() % 3; left > 0; --left) statement(depth + 1);
  }

  void tag(std::string_view opening, std::string_view between, std::string_view closing,
           int depth) {
    out_ += opening;
    expression(0);
    out_ += between;
    body(depth);
    out_ += closing;
  }

  void statement(int depth) {
    const uint8_t kind = depth > 5 ? 0 : next() % 12;
    switch (kind) {
      case 0:
        out_ += "text\n";
        return;
      case 1:
      case 2:
      case 3:
        out_ += "{{- ";
        expression(0);
        out_ += " }}";
        return;
      case 4:
        return tag("{% if ", " %}", "{% else %}e{% endif %}", depth);
      case 5:
        return tag("{% for m in ", " %}", "{% else %}none{% endfor %}", depth);
      case 6:
        return tag("{% for x in ", " if loop.first is undefined %}", "{% break %}{% endfor %}",
                   depth);
      case 7:
        return tag("{% set x = ", " %}", "", depth);
      case 8:
        return tag("{% set ns = namespace(v=", ") %}", "{% set ns.v = ns.v %}", depth);
      case 9:
        return tag("{% macro f(a, b=", ") %}", "{{ a }}{{ b }}{% endmacro %}{{ f(1) }}", depth);
      case 10:
        return tag("{% filter trim %}{{ ", " }}", "{% endfilter %}", depth);
      default:
        return tag("{% set x %}{{ ", " }}", "{% endset %}", depth);
    }
  }

  const uint8_t* data_;
  size_t size_;
  std::string out_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::check_jinja_render(Writer(data, size).write());
  return 0;
}
