#include "context/jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/utf8.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"
#include "context/jinja/string_format.h"
#include "context/jinja/text_ops.h"
#include "context/jinja/unicode.h"

namespace quire::context::jinja {
namespace {

using Method = Result<Value> (*)(Runtime&, const Value& self, const Arguments&);
using MethodTable = std::unordered_map<std::string_view, Method>;

const Text& text_of(const Value& self) {
  return *self.as_text();
}

/// A string argument, None and absence giving nullptr.
Result<const Text*> optional_text(const std::optional<Value>& argument, std::string_view name) {
  if (!argument || argument->is_none()) return static_cast<const Text*>(nullptr);
  if (const Text* text = argument->as_text()) return text;
  return template_error(
      fmt::format("{} must be a string or none, not '{}'", name, argument->type_name()));
}

Result<Value> texts_to_list(Runtime& runtime, std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) {
    if (!runtime.budget.spend(2)) return Budget::exhausted();  // each is three allocations
    QUIRE_TRY(Value item, make_text(runtime, std::move(text)));
    items.push_back(std::move(item));
  }
  return make_sequence(runtime, std::move(items));
}

template <Side kSide>
Result<Value> str_strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("strip", arguments, {"chars"}));
  QUIRE_TRY(const Text* characters, optional_text(bound[0], "strip()'s argument"));
  if (characters != nullptr && !charge_strip(runtime, text_of(self).size(), characters->size())) {
    return Budget::exhausted();
  }
  return make_text(runtime, strip(text_of(self), characters, kSide));
}

template <bool kFromRight>
Result<Value> str_split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("split", arguments, {"sep", "maxsplit"}));
  QUIRE_TRY(const Text* separator, optional_text(bound[0], "the separator"));
  QUIRE_TRY(const int64_t max_splits, integer_or(bound[1], -1, "maxsplit"));
  if (!runtime.budget.spend_bytes(text_of(self).size())) return Budget::exhausted();
  if (separator == nullptr) {
    return texts_to_list(runtime, kFromRight ? split_words_from_right(text_of(self), max_splits)
                                             : split_words(text_of(self), max_splits));
  }
  if (separator->empty()) return template_error("empty separator");
  const std::string_view bytes = separator->bytes();
  if (kFromRight && !charge_rfind(runtime, text_of(self).size(), bytes.size())) {
    return Budget::exhausted();
  }
  return texts_to_list(runtime, kFromRight ? split_from_right(text_of(self), bytes, max_splits)
                                           : split(text_of(self), bytes, max_splits));
}

Result<Value> str_splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("splitlines", arguments, {"keepends"}));
  const LineEnds ends = truthy_or(bound[0], false) ? LineEnds::kKeep : LineEnds::kDrop;
  return texts_to_list(runtime, split_lines(text_of(self), ends));
}

template <bool kFromRight>
Result<Value> str_partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("partition", arguments, {"sep"}, 1));
  const Text* separator = bound[0]->as_text();
  if (separator == nullptr || separator->empty()) {
    return template_error("partition() needs a separator that is not empty");
  }
  const Text& text = text_of(self);
  if (kFromRight && !charge_rfind(runtime, text.size(), separator->size())) {
    return Budget::exhausted();
  }
  const size_t at = kFromRight ? text.bytes().rfind(separator->bytes())
                               : find_bytes(text.bytes(), separator->bytes());
  const bool found = at != std::string_view::npos;
  const size_t head_end = found ? at : kFromRight ? 0 : text.size();
  const size_t tail_begin = found ? at + separator->size() : kFromRight ? 0 : text.size();
  QUIRE_TRY(Value head, make_text(runtime, text.slice(0, head_end)));
  QUIRE_TRY(Value middle, make_text(runtime, found ? *separator : Text()));
  QUIRE_TRY(Value tail, make_text(runtime, text.slice(tail_begin, text.size())));
  std::vector<Value> parts{std::move(head), std::move(middle), std::move(tail)};
  return make_sequence(runtime, std::move(parts), SequenceKind::kTuple);
}

/// The part of the text that start and end (in characters, as in a slice) select.
struct Window {
  std::string_view bytes;
  size_t first_character;
};
Result<std::optional<Window>> window_of(Runtime& runtime, const Text& text,
                                        const std::optional<Value>& start,
                                        const std::optional<Value>& end) {
  const bool whole = (!start || start->is_none()) && (!end || end->is_none());
  if (!runtime.budget.spend(whole ? 1 : text.size() / 4 + 1)) return Budget::exhausted();
  if (whole) return std::optional(Window{text.bytes(), 0});
  const std::vector<size_t> offsets = text.character_offsets();
  const int64_t length = static_cast<int64_t>(offsets.size()) - 1;
  const auto resolve = [length](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + length : index, 0, length);
  };
  QUIRE_TRY(const int64_t first,
            integer_or(start && start->is_none() ? std::nullopt : start, 0, "start"));
  QUIRE_TRY(const int64_t last,
            integer_or(end && end->is_none() ? std::nullopt : end, length, "end"));
  if (first > length || resolve(first) > resolve(last)) return std::optional<Window>();
  const size_t from = offsets[static_cast<size_t>(resolve(first))];
  const size_t to = offsets[static_cast<size_t>(resolve(last))];
  return std::optional(
      Window{text.bytes().substr(from, to - from), static_cast<size_t>(resolve(first))});
}

bool has_affix(std::string_view text, std::string_view affix, bool at_end) {
  if (affix.size() > text.size()) return false;
  return text.substr(at_end ? text.size() - affix.size() : 0, affix.size()) == affix;
}

template <bool kAtEnd>
Result<Value> str_has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("startswith", arguments, {"affix", "start", "end"}, 1));
  QUIRE_TRY(const auto window, window_of(runtime, text_of(self), bound[1], bound[2]));
  std::vector<Value> candidates{*bound[0]};
  if (const Sequence* sequence = bound[0]->as_sequence();
      sequence != nullptr && sequence->kind == SequenceKind::kTuple) {
    candidates = sequence->items;
  }
  for (const Value& candidate : candidates) {
    const Text* affix = candidate.as_text();
    if (affix == nullptr) {
      return template_error(fmt::format("{}() needs a string or a tuple of strings, not '{}'",
                                        kAtEnd ? "endswith" : "startswith", candidate.type_name()));
    }
    if (window && has_affix(window->bytes, affix->bytes(), kAtEnd)) return Value(true);
  }
  return Value(false);
}

template <bool kAtEnd>
Result<Value> str_remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("removeprefix", arguments, {"affix"}, 1));
  const Text* affix = bound[0]->as_text();
  if (affix == nullptr) return template_error("removeprefix() and removesuffix() need a string");
  const Text& text = text_of(self);
  if (!has_affix(text.bytes(), affix->bytes(), kAtEnd)) return self;
  return make_text(runtime, kAtEnd ? text.slice(0, text.size() - affix->size())
                                   : text.slice(affix->size(), text.size()));
}

enum class Search { kFind, kIndex, kRFind, kRIndex };
template <Search kSearch>
Result<Value> str_find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("find", arguments, {"sub", "start", "end"}, 1));
  const Text* part = bound[0]->as_text();
  if (part == nullptr) return template_error("find() needs a string");
  QUIRE_TRY(const auto window, window_of(runtime, text_of(self), bound[1], bound[2]));
  constexpr bool kFromRight = kSearch == Search::kRFind || kSearch == Search::kRIndex;
  if (kFromRight && !charge_rfind(runtime, text_of(self).size(), part->size())) {
    return Budget::exhausted();
  }
  const size_t at = !window      ? std::string_view::npos
                    : kFromRight ? window->bytes.rfind(part->bytes())
                                 : find_bytes(window->bytes, part->bytes());
  if (at != std::string_view::npos) {
    const size_t before = Text(std::string(window->bytes.substr(0, at))).num_characters();
    return Value(static_cast<int64_t>(window->first_character + before));
  }
  if (kSearch == Search::kIndex || kSearch == Search::kRIndex) {
    return template_error("substring not found");
  }
  return Value(int64_t{-1});
}

Result<Value> str_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("count", arguments, {"sub", "start", "end"}, 1));
  const Text* part = bound[0]->as_text();
  if (part == nullptr) return template_error("count() needs a string");
  QUIRE_TRY(const auto window, window_of(runtime, text_of(self), bound[1], bound[2]));
  if (!window) return Value(int64_t{0});
  if (part->empty()) {
    return Value(static_cast<int64_t>(Text(std::string(window->bytes)).num_characters() + 1));
  }
  int64_t count = 0;
  for (size_t at = find_bytes(window->bytes, part->bytes()); at != std::string_view::npos;
       at = find_bytes(window->bytes, part->bytes(), at + part->size())) {
    ++count;
  }
  return Value(count);
}

Result<Value> str_replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  const Text* old = bound[0]->as_text();
  const Text* replacement = bound[1]->as_text();
  if (old == nullptr || replacement == nullptr) return template_error("replace() needs strings");
  QUIRE_TRY(const int64_t count, integer_or(bound[2], -1, "count"));
  QUIRE_TRY(Text out, replace(runtime, text_of(self), old->bytes(), *replacement, count));
  return make_text(runtime, std::move(out));
}

Result<Value> str_join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(Bound bound, bind("join", arguments, {"iterable"}, 1));
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, *bound[0]));
  std::vector<Text> parts;
  for (const Value& item : items) {
    if (!item.is_string()) {
      return template_error(
          fmt::format("join() needs strings, but an item is '{}'", item.type_name()));
    }
    if (!runtime.budget.spend_bytes(item.as_text()->size())) return Budget::exhausted();
    parts.push_back(*item.as_text());
  }
  QUIRE_TRY(Text out, join(runtime, text_of(self), parts));
  return make_text(runtime, std::move(out));
}

template <Case kCase>
Result<Value> str_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("a method without arguments", arguments, {}));
  if (!runtime.budget.spend(text_of(self).size() / 2 + 1)) return Budget::exhausted();
  return make_text(runtime, with_case(text_of(self), kCase));
}

template <Align kAlign>
Result<Value> str_pad(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("ljust", arguments, {"width", "fillchar"}, 1));
  QUIRE_TRY(const int64_t width, integer_or(bound[0], 0, "width"));
  Text fill(" ");
  if (bound[1]) {
    const Text* given = bound[1]->as_text();
    if (given == nullptr || given->num_characters() != 1) {
      return template_error("the fill character must be exactly one character");
    }
    fill = *given;
  }
  QUIRE_TRY(Text out, pad(runtime, text_of(self), width, fill, kAlign));
  return make_text(runtime, std::move(out));
}

Result<Value> str_zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("zfill", arguments, {"width"}, 1));
  QUIRE_TRY(const int64_t width, integer_or(bound[0], 0, "width"));
  const Text& text = text_of(self);
  const bool has_sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  const size_t digits = has_sign ? 1 : 0;
  QUIRE_TRY(const Text padded, pad(runtime, text.slice(digits, text.size()),
                                   width - static_cast<int64_t>(digits), Text("0"), Align::kRight));
  Text out = text.slice(0, digits);
  out.append(padded);
  return make_text(runtime, std::move(out));
}

/// Whether the text is not empty and every character passes.
template <bool (*kTest)(uint32_t)>
Result<Value> str_all(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("a method without arguments", arguments, {}));
  std::string_view rest = text_of(self).bytes();
  if (!runtime.budget.spend(rest.size() / 4 + 1)) return Budget::exhausted();
  bool all = !rest.empty();
  while (all && !rest.empty()) {
    const Utf8Char next = utf8_next(rest);
    all = kTest(next.code_point);
    rest.remove_prefix(static_cast<size_t>(next.bytes));
  }
  return Value(all);
}

bool is_alnum(uint32_t c) {
  return is_alpha(c) || is_numeric(c);
}

Result<Value> str_is_ascii(Runtime&, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("isascii", arguments, {}));
  return Value(text_of(self).is_ascii());
}

/// islower() and isupper(): some cased character, and none of the other case.
template <bool (*kWanted)(uint32_t), bool (*kOther)(uint32_t)>
Result<Value> str_is_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("a method without arguments", arguments, {}));
  std::string_view rest = text_of(self).bytes();
  if (!runtime.budget.spend(rest.size() / 4 + 1)) return Budget::exhausted();
  bool some = false;
  while (!rest.empty()) {
    const Utf8Char next = utf8_next(rest);
    if (kOther(next.code_point)) return Value(false);
    some = some || kWanted(next.code_point);
    rest.remove_prefix(static_cast<size_t>(next.bytes));
  }
  return Value(some);
}

Result<Value> str_format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return format_string(runtime, text_of(self), arguments);
}

const MethodTable& str_methods() {
  static const MethodTable table = {
      {"strip", str_strip<Side::kBoth>},
      {"lstrip", str_strip<Side::kLeft>},
      {"rstrip", str_strip<Side::kRight>},
      {"split", str_split<false>},
      {"rsplit", str_split<true>},
      {"splitlines", str_splitlines},
      {"partition", str_partition<false>},
      {"rpartition", str_partition<true>},
      {"startswith", str_has_affix<false>},
      {"endswith", str_has_affix<true>},
      {"removeprefix", str_remove_affix<false>},
      {"removesuffix", str_remove_affix<true>},
      {"find", str_find<Search::kFind>},
      {"index", str_find<Search::kIndex>},
      {"rfind", str_find<Search::kRFind>},
      {"rindex", str_find<Search::kRIndex>},
      {"count", str_count},
      {"replace", str_replace},
      {"join", str_join},
      {"upper", str_case<Case::kUpper>},
      {"lower", str_case<Case::kLower>},
      {"title", str_case<Case::kTitle>},
      {"capitalize", str_case<Case::kCapitalize>},
      {"swapcase", str_case<Case::kSwap>},
      {"ljust", str_pad<Align::kLeft>},
      {"rjust", str_pad<Align::kRight>},
      {"center", str_pad<Align::kCenter>},
      {"zfill", str_zfill},
      {"isalpha", str_all<is_alpha>},
      {"isalnum", str_all<is_alnum>},
      {"isdigit", str_all<is_digit>},
      {"isdecimal", str_all<is_decimal>},
      {"isnumeric", str_all<is_numeric>},
      {"isspace", str_all<is_space>},
      {"isascii", str_is_ascii},
      {"islower", str_is_case<is_lower, is_upper>},
      {"isupper", str_is_case<is_upper, is_lower>},
      {"format", str_format},
  };
  return table;
}

Result<Value> dict_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("items", arguments, {}));
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict()->entries()) {
    QUIRE_TRY(Value pair, make_sequence(runtime, {key, value}, SequenceKind::kTuple));
    pairs.push_back(std::move(pair));
  }
  return make_sequence(runtime, std::move(pairs), SequenceKind::kDictItems, self.origin());
}

Result<Value> dict_keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("keys", arguments, {}));
  std::vector<Value> keys;
  for (const Dict::Entry& entry : self.as_dict()->entries()) keys.push_back(entry.first);
  return make_sequence(runtime, std::move(keys), SequenceKind::kDictKeys, self.origin());
}

Result<Value> dict_values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("values", arguments, {}));
  std::vector<Value> values;
  for (const Dict::Entry& entry : self.as_dict()->entries()) values.push_back(entry.second);
  return make_sequence(runtime, std::move(values), SequenceKind::kDictValues, self.origin());
}

Result<Value> dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("get", arguments, {"key", "default"}, 1));
  QUIRE_TRY_VOID(canonical_key(runtime, *bound[0]));
  const Value* value = self.as_dict()->find(*bound[0]);
  return value != nullptr ? *value : bound[1].value_or(Value());
}

Result<Value> dict_copy(Runtime&, const Value& self, const Arguments&) {
  return self;
}

const MethodTable& dict_methods() {
  static const MethodTable table = {{"items", dict_items},
                                    {"keys", dict_keys},
                                    {"values", dict_values},
                                    {"get", dict_get},
                                    {"copy", dict_copy}};
  return table;
}

Result<Value> sequence_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("count", arguments, {"value"}, 1));
  int64_t count = 0;
  for (const Value& item : self.as_sequence()->items) {
    QUIRE_TRY(const bool same, equals(runtime, item, *bound[0]));
    count += same ? 1 : 0;
  }
  return Value(count);
}

Result<Value> sequence_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("index", arguments, {"value"}, 1));
  const std::vector<Value>& items = self.as_sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_TRY(const bool same, equals(runtime, items[i], *bound[0]));
    if (same) return Value(static_cast<int64_t>(i));
  }
  return template_error("index(): the value is not in the sequence");
}

Result<Value> list_copy(Runtime&, const Value& self, const Arguments&) {
  return self;
}

const MethodTable& sequence_methods() {
  static const MethodTable table = {
      {"count", sequence_count}, {"index", sequence_index}, {"copy", list_copy}};
  return table;
}

Method find_method(const Value& self, std::string_view name) {
  const MethodTable* table = nullptr;
  if (self.is_string()) table = &str_methods();
  if (self.is_dict()) table = &dict_methods();
  const Sequence* sequence = self.as_sequence();
  if (sequence != nullptr && sequence->is_indexable()) table = &sequence_methods();
  if (table == nullptr) return nullptr;
  if (name == "copy" && sequence != nullptr && sequence->kind != SequenceKind::kList)
    return nullptr;
  const auto found = table->find(name);
  return found == table->end() ? nullptr : found->second;
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  return find_method(self, name) != nullptr;
}

bool changes_its_object(const Value& self, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear",   "extend", "insert",
                                               "pop",    "reverse", "remove", "sort"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const Sequence* sequence = self.as_sequence();
  if (sequence != nullptr && sequence->kind == SequenceKind::kList) {
    return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  }
  return self.is_dict() && std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
}

Result<Value> call_method(Runtime& runtime, const Value& self, std::string_view name,
                          const Arguments& arguments) {
  const Method method = find_method(self, name);
  QUIRE_CHECK(method != nullptr, "call of a method that has_method() does not know");
  if (!runtime.budget.spend(2) || !charge_input(runtime, self)) return Budget::exhausted();
  return method(runtime, self, arguments);
}

}  // namespace quire::context::jinja
