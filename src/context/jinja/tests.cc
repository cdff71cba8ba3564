#include "context/jinja/tests.h"

#include <fmt/format.h>

#include <unordered_map>

#include "context/jinja/filters.h"
#include "context/jinja/methods.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"
#include "context/jinja/text_ops.h"

namespace quire::context::jinja {
namespace {

using Test = Result<bool> (*)(Runtime&, const Value&, const Arguments&);

/// A test without arguments.
template <bool (*kPredicate)(const Value&)>
Result<bool> plain(Runtime&, const Value& value, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("a test without arguments", arguments, {}));
  return kPredicate(value);
}

template <CompareOp kOp>
Result<bool> compares(Runtime& runtime, const Value& value, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("a comparing test", arguments, {"other"}, 1));
  return compare(runtime, kOp, value, *bound[0]);
}

template <int64_t kRemainder>
Result<bool> parity(Runtime& runtime, const Value& value, const Arguments&) {
  QUIRE_TRY(const Value rest, arithmetic(runtime, ArithmeticOp::kMod, value, Value(int64_t{2})));
  return equals(runtime, rest, Value(kRemainder));
}

Result<bool> divisible_by(Runtime& runtime, const Value& value, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("divisibleby", arguments, {"num"}, 1));
  QUIRE_TRY(const Value rest, arithmetic(runtime, ArithmeticOp::kMod, value, *bound[0]));
  return equals(runtime, rest, Value(int64_t{0}));
}

Result<bool> same_as(Runtime&, const Value& value, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("sameas", arguments, {"other"}, 1));
  return value.same_as(*bound[0]);
}

template <Case kCase>
Result<bool> has_case(Runtime& runtime, const Value& value, const Arguments&) {
  QUIRE_TRY(const Text text, to_text(runtime, value));
  if (!runtime.budget.spend(text.size() / 2 + 1)) return Budget::exhausted();
  const std::string_view name = kCase == Case::kLower ? "islower" : "isupper";
  QUIRE_TRY(const Value verdict, call_method(runtime, Value(text), name, {}));
  return verdict.truthy();
}

Result<bool> is_filter(Runtime& runtime, const Value& value, const Arguments&) {
  QUIRE_TRY_VOID(canonical_key(runtime, value));
  const Text* name = value.as_text();
  return name != nullptr && is_filter_name(name->bytes());
}

Result<bool> is_test(Runtime& runtime, const Value& value, const Arguments& arguments);

bool is_defined(const Value& v) {
  return !v.is_undefined();
}
bool is_undefined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is_none();
}
bool is_boolean(const Value& v) {
  return v.is_bool();
}
bool is_true(const Value& v) {
  return v.is_bool() && v.truthy();
}
bool is_false(const Value& v) {
  return v.is_bool() && !v.truthy();
}
bool is_integer(const Value& v) {
  return v.is_int();
}
bool is_float(const Value& v) {
  return v.is_float();
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.is_dict();
}
bool is_escaped(const Value&) {
  return false;
}
bool is_callable(const Value& v) {
  // Jinja's Undefined has __call__, which raises.
  return v.is_undefined() || (v.as_object() != nullptr && v.as_object()->is_callable());
}
bool is_iterable(const Value& v) {
  return v.is_undefined() || v.is_string() || v.is_dict() || v.as_sequence() != nullptr;
}
/// Jinja asks for len() and [].
bool is_sequence(const Value& v) {
  if (v.is_undefined() || v.is_string() || v.is_dict()) return true;
  const Sequence* sequence = v.as_sequence();
  return sequence != nullptr && sequence->is_indexable();
}

const std::unordered_map<std::string_view, Test>& table() {
  static const std::unordered_map<std::string_view, Test> tests = {
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"none", plain<is_none>},
      {"boolean", plain<is_boolean>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"number", plain<is_number>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"iterable", plain<is_iterable>},
      {"sequence", plain<is_sequence>},
      {"callable", plain<is_callable>},
      {"escaped", plain<is_escaped>},
      {"filter", is_filter},
      {"test", is_test},
      {"lower", has_case<Case::kLower>},
      {"upper", has_case<Case::kUpper>},
      {"odd", parity<1>},
      {"even", parity<0>},
      {"divisibleby", divisible_by},
      {"sameas", same_as},
      {"in", compares<CompareOp::kIn>},
      {"==", compares<CompareOp::kEq>},
      {"eq", compares<CompareOp::kEq>},
      {"equalto", compares<CompareOp::kEq>},
      {"!=", compares<CompareOp::kNe>},
      {"ne", compares<CompareOp::kNe>},
      {">", compares<CompareOp::kGt>},
      {"gt", compares<CompareOp::kGt>},
      {"greaterthan", compares<CompareOp::kGt>},
      {">=", compares<CompareOp::kGe>},
      {"ge", compares<CompareOp::kGe>},
      {"<", compares<CompareOp::kLt>},
      {"lt", compares<CompareOp::kLt>},
      {"lessthan", compares<CompareOp::kLt>},
      {"<=", compares<CompareOp::kLe>},
      {"le", compares<CompareOp::kLe>},
  };
  return tests;
}

Result<bool> is_test(Runtime& runtime, const Value& value, const Arguments&) {
  QUIRE_TRY_VOID(canonical_key(runtime, value));
  const Text* name = value.as_text();
  return name != nullptr && table().count(name->bytes()) > 0;
}

}  // namespace

Result<bool> apply_test(Runtime& runtime, std::string_view name, const Value& value,
                        const Arguments& arguments) {
  if (!runtime.budget.spend(1)) return Budget::exhausted();
  const auto found = table().find(name);
  if (found == table().end()) {
    return template_error(fmt::format("there is no test named {}", quoted(name)));
  }
  return found->second(runtime, value, arguments);
}

}  // namespace quire::context::jinja
