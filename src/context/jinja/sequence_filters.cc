// The filters on sequences and mappings.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "context/jinja/access.h"
#include "context/jinja/filters.h"
#include "context/jinja/methods.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"
#include "context/jinja/tests.h"
#include "context/jinja/text_ops.h"

namespace quire::context::jinja {
namespace {

enum class CaseOf { kExact, kIgnored };

/// Strings in lower case, everything else as it is: how sort, unique, min, ... compare.
Result<Value> folded(Runtime& runtime, Value value, CaseOf case_of) {
  if (case_of == CaseOf::kExact || !value.is_string()) return value;
  if (!runtime.budget.spend(value.as_text()->size() / 2 + 1)) return Budget::exhausted();
  return make_text(runtime, with_case(*value.as_text(), Case::kLower));
}

CaseOf case_of(const std::optional<Value>& case_sensitive) {
  return truthy_or(case_sensitive, false) ? CaseOf::kExact : CaseOf::kIgnored;
}

/// The attribute a filter was asked for, or the item itself.
Result<Value> attribute_of(Runtime& runtime, const Value& item,
                           const std::optional<Value>& attribute) {
  if (!attribute || attribute->is_none()) return item;
  return get_path(runtime, item, *attribute);
}

/// Sorts by key, stably, as Python's sorted: items[i] belongs to keys[i].
Result<std::vector<Value>> sorted_by(Runtime& runtime, std::vector<Value> items,
                                     const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::optional<Error> failure;
  const auto less = [&](size_t a, size_t b) {
    if (failure) return false;
    Result<bool> result = less_than(runtime, keys[a], keys[b]);
    if (!result.ok()) failure = std::move(result).error();
    return !failure && *result;
  };
  if (reverse) std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), less);
  if (failure) return *failure;
  if (reverse) std::reverse(order.begin(), order.end());
  std::vector<Value> out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(std::move(items[i]));
  return out;
}

Result<Value> length(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("length", arguments, {}));
  if (input.is_string() && !runtime.budget.spend_bytes(input.as_text()->size())) {
    return Budget::exhausted();
  }
  QUIRE_TRY(const int64_t count, length_of(input));
  return Value(count);
}

Result<Value> to_list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("list", arguments, {}));
  Value source = input;
  QUIRE_TRY(std::vector<Value> items, iterate(runtime, source));
  return make_sequence(runtime, std::move(items), SequenceKind::kList, input.origin());
}

Result<Value> items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("items", arguments, {}));
  if (input.is_undefined()) return make_sequence(runtime, {}, SequenceKind::kGenerator);
  if (!input.is_dict()) return template_error("items needs a mapping");
  QUIRE_TRY(const Value view, call_method(runtime, input, "items", {}));
  return make_sequence(runtime, view.as_sequence()->items, SequenceKind::kGenerator,
                       input.origin());
}

Result<Value> first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("first", arguments, {}));
  Value source = input;
  Sequence* sequence = source.as_sequence();
  if (sequence != nullptr && sequence->is_generator() &&
      sequence->consumed < sequence->items.size()) {
    return sequence->items[sequence->consumed++];
  }
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  return all.empty() ? Value::undefined("No first item, sequence was empty.") : all.front();
}

Result<Value> last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("last", arguments, {}));
  const Sequence* sequence = input.as_sequence();
  if (sequence != nullptr && sequence->is_generator()) {
    return template_error("'generator' object is not reversible");
  }
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Result<Value> reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("reverse", arguments, {}));
  if (input.is_string()) return get_slice(runtime, input, {}, {}, Value(int64_t{-1}));
  const Sequence* sequence = input.as_sequence();
  const bool lazily = sequence == nullptr || !sequence->is_generator();
  Value source = input;
  QUIRE_TRY(std::vector<Value> all, iterate(runtime, source));
  std::reverse(all.begin(), all.end());
  return make_sequence(runtime, std::move(all),
                       lazily ? SequenceKind::kGenerator : SequenceKind::kList, input.origin());
}

Result<Value> join_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("join", arguments, {"d", "attribute"}));
  QUIRE_TRY(const Text separator, to_text(runtime, bound[0].value_or(Value::string(""))));
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  std::vector<Text> parts;
  for (const Value& item : all) {
    QUIRE_TRY(const Value value, attribute_of(runtime, item, bound[1]));
    QUIRE_TRY(Text text, to_text(runtime, value));
    parts.push_back(std::move(text));
  }
  QUIRE_TRY(Text out, join(runtime, separator, parts));
  return make_text(runtime, std::move(out));
}

Result<Value> sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}));
  // "a,b.c" sorts by several attributes.
  std::vector<std::optional<Value>> attributes{bound[2]};
  if (bound[2] && bound[2]->is_string()) {
    attributes.clear();
    for (Text& part : split(*bound[2]->as_text(), ",", -1))
      attributes.emplace_back(Value(std::move(part)));
  }
  Value source = input;
  QUIRE_TRY(std::vector<Value> all, iterate(runtime, source));
  std::vector<Value> keys;
  for (const Value& item : all) {
    std::vector<Value> key;
    for (const auto& attribute : attributes) {
      QUIRE_TRY(Value value, attribute_of(runtime, item, attribute));
      QUIRE_TRY(value, folded(runtime, std::move(value), case_of(bound[1])));
      key.push_back(std::move(value));
    }
    QUIRE_TRY(Value sequence, make_sequence(runtime, std::move(key)));
    keys.push_back(std::move(sequence));
  }
  QUIRE_TRY(all, sorted_by(runtime, std::move(all), keys, truthy_or(bound[0], false)));
  return make_sequence(runtime, std::move(all), SequenceKind::kList, input.origin());
}

Result<Value> dict_sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}));
  QUIRE_TRY_VOID(require_defined(input));
  if (!input.is_dict()) return template_error("dictsort needs a mapping");
  const Value by = bound[1].value_or(Value::string("key"));
  const std::string_view by_name = by.is_string() ? by.as_text()->bytes() : "";
  if (by_name != "key" && by_name != "value")
    return template_error("dictsort: by must be 'key' or 'value'");
  QUIRE_TRY(const Value view, call_method(runtime, input, "items", {}));
  std::vector<Value> pairs = view.as_sequence()->items;
  std::vector<Value> keys;
  for (const Value& pair : pairs) {
    QUIRE_TRY(Value key, folded(runtime, pair.as_sequence()->items[by_name == "key" ? 0 : 1],
                                case_of(bound[0])));
    keys.push_back(std::move(key));
  }
  QUIRE_TRY(pairs, sorted_by(runtime, std::move(pairs), keys, truthy_or(bound[2], false)));
  return make_sequence(runtime, std::move(pairs), SequenceKind::kList, input.origin());
}

Result<Value> unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("unique", arguments, {"case_sensitive", "attribute"}));
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  std::unordered_set<std::string> seen;
  std::vector<Value> kept;
  for (const Value& item : all) {
    QUIRE_TRY(Value value, attribute_of(runtime, item, bound[1]));
    QUIRE_TRY(value, folded(runtime, std::move(value), case_of(bound[0])));
    QUIRE_TRY(std::string key, canonical_key(runtime, value));
    if (seen.insert(std::move(key)).second) kept.push_back(item);
  }
  return make_sequence(runtime, std::move(kept), SequenceKind::kGenerator, input.origin());
}

enum class Extreme { kMin, kMax };
template <Extreme kExtreme>
Result<Value> extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("min", arguments, {"case_sensitive", "attribute"}));
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  if (all.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  std::optional<size_t> best;
  Value best_key;
  for (size_t i = 0; i < all.size(); ++i) {
    QUIRE_TRY(Value key, attribute_of(runtime, all[i], bound[1]));
    QUIRE_TRY(key, folded(runtime, std::move(key), case_of(bound[0])));
    bool better = true;
    if (best) {
      QUIRE_TRY(better, kExtreme == Extreme::kMin ? less_than(runtime, key, best_key)
                                                  : less_than(runtime, best_key, key));
    }
    if (!better) continue;
    best = i;
    best_key = std::move(key);
  }
  return all[*best];
}

Result<Value> sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("sum", arguments, {"attribute", "start"}));
  Value total = bound[1].value_or(Value(int64_t{0}));
  if (total.is_string()) return template_error("sum cannot add strings: use join");
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  for (const Value& item : all) {
    QUIRE_TRY(const Value value, attribute_of(runtime, item, bound[0]));
    QUIRE_TRY(total, arithmetic(runtime, ArithmeticOp::kAdd, total, value));
  }
  return total;
}

/// An attribute path where each undefined step becomes the default.
Result<Value> attribute_or_default(Runtime& runtime, Value item, const Value& path,
                                   const Value& otherwise) {
  std::vector<Value> parts{path};
  if (path.is_string() && !otherwise.is_none()) {
    parts.clear();
    for (Text& part : split(*path.as_text(), ".", -1)) parts.emplace_back(std::move(part));
  }
  for (const Value& part : parts) {
    QUIRE_TRY(item, get_path(runtime, std::move(item), part));
    if (item.is_undefined() && !otherwise.is_none()) item = otherwise;
  }
  return item;
}

Result<Value> map_one(Runtime& runtime, const Value& item, const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    const Text* name = arguments.positional.front().as_text();
    if (name == nullptr) return template_error("map needs the name of a filter");
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    return apply_filter(runtime, name->bytes(), item, rest);
  }
  QUIRE_TRY(const Bound bound, bind("map", arguments, {"attribute", "default"}));
  if (!bound[0]) return template_error("map needs the name of a filter or an attribute");
  return attribute_or_default(runtime, item, *bound[0], bound[1].value_or(Value()));
}

Result<Value> map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::vector<Value> out;
  if (input.truthy()) {
    Value source = input;
    QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
    for (const Value& item : all) {
      QUIRE_TRY(Value mapped, map_one(runtime, item, arguments));
      out.push_back(std::move(mapped));
    }
  }
  return make_sequence(runtime, std::move(out), SequenceKind::kGenerator, input.origin());
}

enum class Subject { kItem, kAttribute };
enum class Keep { kPassing, kFailing };
template <Subject kSubject, Keep kKeep>
Result<Value> select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::vector<Value> kept;
  Arguments rest = arguments;
  const auto take = [&rest]() -> std::optional<Value> {
    if (rest.positional.empty()) return std::nullopt;
    Value value = std::move(rest.positional.front());
    rest.positional.erase(rest.positional.begin());
    return value;
  };
  const std::optional<Value> attribute = kSubject == Subject::kAttribute ? take() : std::nullopt;
  const std::optional<Value> test = take();
  if (kSubject == Subject::kAttribute && !attribute && input.truthy()) {
    return template_error("selectattr and rejectattr need the name of an attribute");
  }
  if (test && !test->is_string()) return template_error("a test's name must be a string");
  Value source = input.truthy() ? input : Value::undefined("");
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  for (const Value& item : all) {
    QUIRE_TRY(const Value subject, attribute_of(runtime, item, attribute));
    bool passes = subject.truthy();
    if (test) {
      QUIRE_TRY(passes, apply_test(runtime, test->as_text()->bytes(), subject, rest));
    }
    if (passes == (kKeep == Keep::kPassing)) kept.push_back(item);
  }
  return make_sequence(runtime, std::move(kept), SequenceKind::kGenerator, input.origin());
}

Result<Value> batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("batch", arguments, {"linecount", "fill_with"}, 1));
  QUIRE_TRY(const int64_t size, integer_or(bound[0], 1, "linecount"));
  const Value fill = bound[1].value_or(Value());
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  if (size < 1) return template_error("batch needs a positive size");
  std::vector<Value> rows;
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(size)) {
    const size_t end = std::min(all.size(), i + static_cast<size_t>(size));
    std::vector<Value> row(all.begin() + static_cast<std::ptrdiff_t>(i),
                           all.begin() + static_cast<std::ptrdiff_t>(end));
    if (!fill.is_none()) {
      if (!runtime.budget.spend(static_cast<uint64_t>(size))) return Budget::exhausted();
      row.resize(static_cast<size_t>(size), fill);
    }
    QUIRE_TRY(Value list, make_sequence(runtime, std::move(row)));
    rows.push_back(std::move(list));
    if (end == all.size()) break;
  }
  return make_sequence(runtime, std::move(rows), SequenceKind::kGenerator, input.origin());
}

Result<Value> slice(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("slice", arguments, {"slices", "fill_with"}, 1));
  QUIRE_TRY(const int64_t count, integer_or(bound[0], 1, "slices"));
  const Value fill = bound[1].value_or(Value());
  Value source = input;
  QUIRE_TRY(const std::vector<Value> all, iterate(runtime, source));
  if (count < 1 || !runtime.budget.spend(static_cast<uint64_t>(count))) {
    return template_error("slice needs a positive, reasonable number of slices");
  }
  const size_t columns = static_cast<size_t>(count);
  const size_t longer = all.size() % columns;
  std::vector<Value> out;
  auto next = all.begin();
  for (size_t i = 0; i < columns; ++i) {
    const auto end =
        next + static_cast<std::ptrdiff_t>(all.size() / columns + (i < longer ? 1 : 0));
    std::vector<Value> column(next, end);
    if (!fill.is_none() && i >= longer) column.push_back(fill);
    next = end;
    QUIRE_TRY(Value list, make_sequence(runtime, std::move(column)));
    out.push_back(std::move(list));
  }
  return make_sequence(runtime, std::move(out), SequenceKind::kGenerator, input.origin());
}

Result<Value> group_by(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound,
            bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
  Value source = input;
  QUIRE_TRY(std::vector<Value> all, iterate(runtime, source));
  // Sorted as pairs (real key, item), so that both survive the sort.
  std::vector<Value> pairs, keys;
  for (const Value& item : all) {
    QUIRE_TRY(Value key,
              attribute_or_default(runtime, item, *bound[0], bound[1].value_or(Value())));
    QUIRE_TRY(Value pair, make_sequence(runtime, {key, item}));
    pairs.push_back(std::move(pair));
    QUIRE_TRY(key, folded(runtime, std::move(key), case_of(bound[2])));
    keys.push_back(std::move(key));
  }
  QUIRE_TRY(pairs, sorted_by(runtime, std::move(pairs), keys, false));
  std::vector<Value> groups, members;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<Value>& pair = pairs[i].as_sequence()->items;
    members.push_back(pair[1]);
    bool continues = false;
    if (i + 1 < pairs.size()) {
      QUIRE_TRY(const Value key, folded(runtime, pair[0], case_of(bound[2])));
      QUIRE_TRY(const Value next,
                folded(runtime, pairs[i + 1].as_sequence()->items[0], case_of(bound[2])));
      QUIRE_TRY(continues, equals(runtime, key, next));
    }
    if (continues) continue;
    const Value real_key = pairs[i + 1 - members.size()].as_sequence()->items[0];
    QUIRE_TRY(const Value list, make_sequence(runtime, std::exchange(members, {})));
    QUIRE_TRY(Value group, make_sequence(runtime, {real_key, list}, SequenceKind::kTuple));
    groups.push_back(std::move(group));
  }
  return make_sequence(runtime, std::move(groups), SequenceKind::kList, input.origin());
}

Result<Value> attr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("attr", arguments, {"name"}, 1));
  QUIRE_TRY_VOID(require_defined(input));
  QUIRE_TRY(const Text name, to_text(runtime, *bound[0]));
  const bool only_a_key = input.is_dict() && !has_method(input, name.bytes()) &&
                          !changes_its_object(input, name.bytes());
  if (only_a_key) return Value::undefined("'dict object' has no attribute " + quoted(name.bytes()));
  return get_attribute(runtime, input, name.bytes());
}

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"attr", attr},
      {"batch", batch},
      {"count", length},
      {"dictsort", dict_sort},
      {"first", first},
      {"groupby", group_by},
      {"items", items},
      {"join", join_filter},
      {"last", last},
      {"length", length},
      {"list", to_list},
      {"map", map},
      {"max", extreme<Extreme::kMax>},
      {"min", extreme<Extreme::kMin>},
      {"reject", select<Subject::kItem, Keep::kFailing>},
      {"rejectattr", select<Subject::kAttribute, Keep::kFailing>},
      {"reverse", reverse},
      {"select", select<Subject::kItem, Keep::kPassing>},
      {"selectattr", select<Subject::kAttribute, Keep::kPassing>},
      {"slice", slice},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace quire::context::jinja
