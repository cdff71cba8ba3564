// The filters on text and on numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/utf8.h"
#include "context/jinja/filters.h"
#include "context/jinja/numbers.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"
#include "context/jinja/text_ops.h"
#include "context/jinja/to_json.h"
#include "context/jinja/unicode.h"

namespace quire::context::jinja {
namespace {

template <Case kCase>
Result<Value> change_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("a case filter", arguments, {}));
  QUIRE_TRY(const Text text, to_text(runtime, input));
  if (!runtime.budget.spend(text.size() / 2 + 1)) return Budget::exhausted();
  return make_text(runtime, with_case(text, kCase));
}

Result<Value> to_string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY_VOID(bind("string", arguments, {}));
  if (input.is_string()) return input;
  QUIRE_TRY(Text text, to_text(runtime, input));
  return make_text(runtime, std::move(text));
}

Result<Value> trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("trim", arguments, {"chars"}));
  QUIRE_TRY(const Text text, to_text(runtime, input));
  const Text* characters = nullptr;
  if (bound[0] && !bound[0]->is_none()) {
    characters = bound[0]->as_text();
    if (characters == nullptr) return template_error("trim needs a string of characters");
    if (!charge_strip(runtime, text.size(), characters->size())) return Budget::exhausted();
  }
  return make_text(runtime, strip(text, characters, Side::kBoth));
}

Result<Value> replace_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  QUIRE_TRY(const Text text, to_text(runtime, input));
  QUIRE_TRY(const Text old, to_text(runtime, *bound[0]));
  QUIRE_TRY(const Text replacement, to_text(runtime, *bound[1]));
  const bool counted = bound[2] && !bound[2]->is_none();
  QUIRE_TRY(const int64_t count, integer_or(counted ? bound[2] : std::nullopt, -1, "count"));
  QUIRE_TRY(Text out, replace(runtime, text, old.bytes(), replacement, count));
  return make_text(runtime, std::move(out));
}

Result<Value> default_filter(Runtime&, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("default", arguments, {"default_value", "boolean"}));
  const bool missing = input.is_undefined() || (truthy_or(bound[1], false) && !input.truthy());
  return missing ? bound[0].value_or(Value::string("")) : input;
}

Result<Value> center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("center", arguments, {"width"}));
  QUIRE_TRY(const int64_t width, integer_or(bound[0], 80, "width"));
  QUIRE_TRY(const Text text, to_text(runtime, input));
  QUIRE_TRY(Text out, pad(runtime, text, width, Text(" "), Align::kCenter));
  return make_text(runtime, std::move(out));
}

Result<Text> indentation(Runtime& runtime, const std::optional<Value>& width) {
  if (width && width->is_string()) return *width->as_text();
  QUIRE_TRY(const int64_t spaces, integer_or(width, 4, "width"));
  return pad(runtime, Text(), spaces, Text(" "), Align::kLeft);
}

Result<Value> indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("indent", arguments, {"width", "first", "blank"}));
  QUIRE_TRY_VOID(require_defined(input));
  if (!input.is_string()) {
    return template_error(fmt::format("indent needs a string, not '{}'", input.type_name()));
  }
  QUIRE_TRY(const Text margin, indentation(runtime, bound[0]));
  const bool first = truthy_or(bound[1], false);
  const bool blank = truthy_or(bound[2], false);
  Text text = *input.as_text();
  text.append("\n", input.origin());  // so that an empty last line counts, as in Jinja
  Text out;
  const std::vector<Text> lines = split_lines(text, LineEnds::kDrop);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!runtime.budget.spend_bytes(lines[i].size() + margin.size()) ||
        out.size() > runtime.limits.max_output_bytes) {
      return Budget::exhausted();
    }
    if (i > 0) out.append("\n", input.origin());
    const bool indents = i == 0 ? first : blank || !lines[i].empty();
    if (indents) out.append(margin);
    out.append(lines[i]);
  }
  return make_text(runtime, std::move(out));
}

Result<Value> truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound,
            bind("truncate", arguments, {"length", "killwords", "end", "leeway"}));
  QUIRE_TRY(const int64_t length, integer_or(bound[0], 255, "length"));
  const bool has_leeway = bound[3] && !bound[3]->is_none();
  QUIRE_TRY(const int64_t leeway, integer_or(has_leeway ? bound[3] : std::nullopt, 5, "leeway"));
  const Value ellipsis = bound[2].value_or(Value::string("..."));
  const Text* end = ellipsis.as_text();
  if (end == nullptr) return template_error("truncate needs a string as its end");
  const int64_t kept = length - static_cast<int64_t>(end->num_characters());
  if (kept < 0 || leeway < 0) return template_error("truncate needs a larger length");
  QUIRE_TRY(const int64_t size, length_of(input));
  if (size <= length + leeway) return input;
  const Text* text = input.as_text();
  if (text == nullptr) return template_error("truncate needs a string");
  if (!runtime.budget.spend(text->size() / 4 + 1)) return Budget::exhausted();
  const std::vector<size_t> offsets = text->character_offsets();
  Text out = text->slice(0, offsets[static_cast<size_t>(kept)]);
  if (!truthy_or(bound[1], false)) out = split_from_right(out, " ", 1).front();
  out.append(*end);
  return make_text(runtime, std::move(out));
}

Result<Value> word_count(Runtime& runtime, const Value& input, const Arguments&) {
  QUIRE_TRY(const Text text, to_text(runtime, input));
  if (!runtime.budget.spend(text.size() / 4 + 1)) return Budget::exhausted();
  int64_t words = 0;
  bool inside = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const Utf8Char next = utf8_next(rest);
    const uint32_t c = next.code_point;
    const bool is_word = c == '_' || is_alpha(c) || is_numeric(c);
    words += is_word && !inside ? 1 : 0;
    inside = is_word;
    rest.remove_prefix(static_cast<size_t>(next.bytes));
  }
  return Value(words);
}

Result<Value> escape(Runtime& runtime, const Value& input, const Arguments&) {
  QUIRE_TRY(Text text, to_text(runtime, input));
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [character, entity] : kEntities) {
    const Text replacement(std::string(entity), input.origin());
    QUIRE_TRY(text, replace(runtime, text, character, replacement, -1));
  }
  return make_text(runtime, std::move(text));
}

Result<Value> url_encode(Runtime& runtime, const Value& input, const Arguments&) {
  if (input.is_dict() || input.as_sequence() != nullptr) {
    return template_error("urlencode of a mapping or a list is not supported");
  }
  QUIRE_TRY(const Text text, to_text(runtime, input));
  if (!runtime.budget.spend(text.size() / 4 + 1)) return Budget::exhausted();
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    out.append(plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c)),
               text.origin_at(i));
  }
  return make_text(runtime, std::move(out));
}

Result<Value> format_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Text format, to_text(runtime, input));
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    return template_error("format takes positional or keyword arguments, not both");
  }
  if (arguments.keyword.empty()) {
    QUIRE_TRY(const Value tuple,
              make_sequence(runtime, arguments.positional, SequenceKind::kTuple));
    return percent_format(runtime, format, tuple);
  }
  Dict dict;
  for (const auto& [name, value] : arguments.keyword) dict.set(Value::string(name), value);
  QUIRE_TRY(const Value names, make_dict(runtime, std::move(dict)));
  return percent_format(runtime, format, names);
}

Result<std::optional<std::string>> json_indent(const std::optional<Value>& indent) {
  if (!indent || indent->is_none()) return std::optional<std::string>();
  if (const Text* text = indent->as_text()) return std::optional(std::string(text->bytes()));
  QUIRE_TRY(const int64_t spaces, integer_or(indent, 0, "indent"));
  if (spaces > 1000) return template_error("tojson: the indent is too large");
  return std::optional(std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' '));
}

Result<Value> to_json_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(Bound bound,
            bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = truthy_or(bound[0], false);
  QUIRE_TRY(style.indent, json_indent(bound[1]));
  if (style.indent) style.item_separator = ",";
  if (bound[2] && !bound[2]->is_none()) {
    QUIRE_TRY(const std::vector<Value> separators, iterate(runtime, *bound[2]));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      return template_error("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].as_text()->bytes();
    style.key_separator = separators[1].as_text()->bytes();
  }
  style.sort_keys = truthy_or(bound[3], false);
  QUIRE_TRY(Text text, to_json(runtime, input, style));
  return make_text(runtime, std::move(text));
}

Result<Value> absolute(Runtime&, const Value& input, const Arguments&) {
  QUIRE_TRY_VOID(require_defined(input));
  if (const auto number = input.as_integer()) {
    return *number < 0 ? negative(input) : Result<Value>(Value(*number, input.origin()));
  }
  if (const auto number = input.as_double()) return Value(std::fabs(*number), input.origin());
  return template_error(fmt::format("abs needs a number, not '{}'", input.type_name()));
}

/// What int() and float() make of a value; nothing where the filters fall back to their default.
std::optional<double> float_of(const Value& input) {
  if (const Text* text = input.as_text()) return parse_float(text->bytes());
  return input.as_double();
}

Result<Value> to_integer(Runtime&, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("int", arguments, {"default", "base"}));
  QUIRE_TRY_VOID(require_defined(input));
  if (const auto number = input.as_integer()) return Value(*number, input.origin());
  if (const Text* text = input.as_text()) {
    QUIRE_TRY(const int64_t base, integer_or(bound[1], 10, "base"));
    QUIRE_TRY(const auto parsed, parse_integer(text->bytes(), base));
    if (parsed) return Value(*parsed, input.origin());
  }
  if (const auto number = float_of(input)) {
    QUIRE_TRY(const auto truncated, truncate_to_integer(*number));
    if (truncated) return Value(*truncated, input.origin());
  }
  return bound[0].value_or(Value(int64_t{0}));
}

Result<Value> to_float(Runtime&, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("float", arguments, {"default"}));
  QUIRE_TRY_VOID(require_defined(input));
  if (const auto number = float_of(input)) return Value(*number, input.origin());
  return bound[0].value_or(Value(0.0));
}

Result<Value> round_filter(Runtime&, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("round", arguments, {"precision", "method"}));
  QUIRE_TRY(const int64_t precision, integer_or(bound[0], 0, "precision"));
  QUIRE_TRY_VOID(require_defined(input));
  const auto number = input.as_double();
  if (!number)
    return template_error(fmt::format("round needs a number, not '{}'", input.type_name()));
  if (std::abs(precision) > 300) return template_error("round: the precision is too large");
  const Value method = bound[1].value_or(Value::string("common"));
  const std::string_view name = method.is_string() ? method.as_text()->bytes() : "";
  if (name == "common") {
    if (input.as_integer() && precision >= 0) return Value(*input.as_integer(), input.origin());
    const double rounded = round_float(*number, static_cast<int>(precision));
    if (input.as_integer()) return Value(static_cast<int64_t>(rounded), input.origin());
    return Value(rounded, input.origin());
  }
  if (name != "ceil" && name != "floor")
    return template_error("round: method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * unit;
  return Value((name == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit, input.origin());
}

Result<Value> file_size(Runtime&, const Value& input, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("filesizeformat", arguments, {"binary"}));
  const auto bytes = float_of(input);
  if (!bytes) return template_error("filesizeformat needs a number");
  const bool binary = truthy_or(bound[0], false);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return Value::string("1 Byte");
  if (*bytes < base) return Value::string(fmt::format("{} Bytes", static_cast<int64_t>(*bytes)));
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  while (i + 1 < kPrefixes.size() && *bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return Value::string(
      fmt::format("{} {}{}", float_fixed(*bytes / unit, 1), prefix, binary ? "iB" : "B"));
}

Result<Value> safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return to_string(runtime, input, arguments);
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"abs", absolute},
      {"capitalize", change_case<Case::kCapitalize>},
      {"center", center},
      {"d", default_filter},
      {"default", default_filter},
      {"e", escape},
      {"escape", escape},
      {"filesizeformat", file_size},
      {"float", to_float},
      {"forceescape", escape},
      {"format", format_filter},
      {"indent", indent},
      {"int", to_integer},
      {"lower", change_case<Case::kLower>},
      {"replace", replace_filter},
      {"round", round_filter},
      {"safe", safe},
      {"string", to_string},
      {"title", change_case<Case::kTitleWords>},
      {"tojson", to_json_filter},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", change_case<Case::kUpper>},
      {"urlencode", url_encode},
      {"wordcount", word_count},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace quire::context::jinja
