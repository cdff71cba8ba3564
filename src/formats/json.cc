#include "formats/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/utf8.h"

namespace quire::formats {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 128;
/// Below this many members a quadratic search beats sorting.
constexpr size_t kFewMembers = 8;

/// Gives the first of each run of equal keys the value of the last, and drops the rest. Sorting
/// keeps this O(n log n) for any input: a hash table's worst case could be chosen by an attacker.
void keep_last_of_duplicates(Json::Object& members) {
  std::vector<uint32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const int by_key = members[a].first.compare(members[b].first);
    return by_key != 0 ? by_key < 0 : a < b;
  });
  std::vector<uint32_t> dropped;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && members[order[end]].first == members[order[begin]].first) ++end;
    if (end - begin > 1) {
      members[order[begin]].second = std::move(members[order[end - 1]].second);
      dropped.insert(dropped.end(), order.begin() + static_cast<ptrdiff_t>(begin) + 1,
                     order.begin() + static_cast<ptrdiff_t>(end));
    }
    begin = end;
  }
  if (dropped.empty()) return;
  std::ranges::sort(dropped);
  auto next_dropped = dropped.begin();
  size_t kept = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (next_dropped != dropped.end() && *next_dropped == i) {
      ++next_dropped;
    } else {
      if (kept != i) members[kept] = std::move(members[i]);
      ++kept;
    }
  }
  members.resize(kept);
}

bool has_duplicates(const Json::Object& few) {
  for (size_t i = 1; i < few.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (few[i].first == few[j].first) return true;
    }
  }
  return false;
}

/// Recursion is bounded by kMaxDepth, which the parser enforced.
Json to_json(const dom::element& element) {
  switch (element.type()) {
    case dom::element_type::NULL_VALUE:
      return Json();
    case dom::element_type::BOOL:
      return Json(element.get_bool().value_unsafe());
    case dom::element_type::INT64:
      return Json(element.get_int64().value_unsafe());
    case dom::element_type::UINT64:
      return Json(element.get_uint64().value_unsafe());
    case dom::element_type::DOUBLE:
      return Json(element.get_double().value_unsafe());
    case dom::element_type::STRING:
      return Json(element.get_string().value_unsafe());
    case dom::element_type::ARRAY: {
      const dom::array source = element.get_array().value_unsafe();
      Json::Array array;
      array.reserve(source.size());
      for (const dom::element item : source) array.push_back(to_json(item));
      return Json(std::move(array));
    }
    case dom::element_type::OBJECT: {
      const dom::object source = element.get_object().value_unsafe();
      Json::Object object;
      object.reserve(source.size());
      for (const dom::key_value_pair member : source) {
        object.emplace_back(std::string(member.key), to_json(member.value));
      }
      if (object.size() > kFewMembers || has_duplicates(object)) keep_last_of_duplicates(object);
      return Json(std::move(object));
    }
  }
  QUIRE_CHECK(false, "simdjson knows no other type");
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// `text` with "e0" after every integer too long for 64 bits, so that simdjson reads it as a
/// double: tokenizer_config.json often holds model_max_length = 1000000000000000019884624838656.
std::string with_big_integers_as_doubles(std::string_view text) {
  constexpr size_t kMaxDigits = 18;  // always fits in int64
  std::string out;
  out.reserve(text.size() + 64);
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string || !is_digit(c)) {
      if (c == '"') in_string = !in_string;
      const size_t length = in_string && c == '\\' && i + 1 < text.size() ? 2 : 1;
      out.append(text.substr(i, length));
      i += length;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    const size_t digits = end - i;
    const bool integer = end == text.size() || (text[end] != '.' && (text[end] | 0x20) != 'e');
    if (!integer) {  // take the fraction and exponent along: their digits are no integers
      while (end < text.size() && (is_digit(text[end]) || text[end] == '.' || text[end] == '+' ||
                                   text[end] == '-' || (text[end] | 0x20) == 'e')) {
        ++end;
      }
    }
    out.append(text.substr(i, end - i));
    if (integer && digits > kMaxDigits) out += "e0";
    i = end;
  }
  return out;
}

simdjson::error_code parse_with(dom::parser& parser, std::string_view text, dom::element& root) {
  if (text.data() == nullptr) text = "";  // simdjson copies from where it is told, even nothing
  // The parser would allow nesting of 1024 by itself.
  if (const auto error = parser.allocate(std::max<size_t>(text.size(), 32), kMaxDepth)) {
    return error;
  }
  return parser.parse(text.data(), text.size(), /*realloc_if_needed=*/true).get(root);
}

void dump_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<int>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void dump_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const std::string digits = fmt::format("{}", value);  // shortest that reads back the same
  out += digits;
  // Stays a double when read back.
  if (digits.find_first_of(".e") == std::string::npos) out += ".0";
}

class Dumper {
 public:
  Dumper(std::string& out, int indent) : out_(out), indent_(indent) {}

  void dump(const Json& value) {
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += *value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      fmt::format_to(std::back_inserter(out_), "{}", *value.as_int());
    } else if (value.is_double()) {
      dump_double(out_, *value.as_double());
    } else if (const std::string* text = value.as_string()) {
      dump_text(*text);
    } else if (const Json::Array* array = value.as_array()) {
      dump_all(*array, '[', ']', [&](const Json& item) { dump(item); });
    } else {
      dump_all(*value.as_object(), '{', '}', [&](const Json::Member& member) {
        dump_text(member.first);
        out_ += indent_ < 0 ? ":" : ": ";
        dump(member.second);
      });
    }
  }

 private:
  void dump_text(const std::string& text) {
    // Ill-formed UTF-8 would make the whole document unreadable.
    utf8_is_valid(text) ? dump_string(out_, text) : dump_string(out_, utf8_sanitized(text));
  }

  template <class Items, class DumpItem>
  void dump_all(const Items& items, char open, char close, DumpItem dump_item) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ',';
      first = false;
      new_line();
      dump_item(item);
    }
    --depth_;
    if (!items.empty()) new_line();
    out_ += close;
  }

  void new_line() {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(depth_ * indent_), ' ');
  }

  std::string& out_;
  int indent_;
  int depth_ = 0;
};

}  // namespace

Json::Json(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = static_cast<double>(value);
  }
}

Result<Json> Json::parse(std::string_view text, std::string_view what) {
  dom::parser parser;
  dom::element root;
  simdjson::error_code error = parse_with(parser, text, root);
  if (error == simdjson::NUMBER_ERROR) {
    error = parse_with(parser, with_big_integers_as_doubles(text), root);
  }
  if (error == simdjson::SUCCESS) return to_json(root);
  if (error == simdjson::DEPTH_ERROR) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{} nests its JSON deeper than {} levels", what, kMaxDepth)};
  }
  return Error{ErrorCode::kBadFile,
               fmt::format("{} is not valid JSON: {}", what, simdjson::error_message(error))};
}

std::optional<bool> Json::as_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  return std::nullopt;
}

std::optional<int64_t> Json::as_int() const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return *value;
  return std::nullopt;
}

std::optional<double> Json::as_double() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  return std::nullopt;
}

const Json* Json::find(std::string_view key) const {
  const Object* object = as_object();
  if (object == nullptr) return nullptr;
  for (const auto& [name, value] : *object) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object();
  Object* object = as_object();
  QUIRE_CHECK(object != nullptr, "set() of a Json that is no object");
  for (Member& member : *object) {
    if (member.first == key) {
      member.second = std::move(value);
      return *this;
    }
  }
  object->emplace_back(std::string(key), std::move(value));
  return *this;
}

Json& Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  Array* array = as_array();
  QUIRE_CHECK(array != nullptr, "push_back() of a Json that is no array");
  array->push_back(std::move(value));
  return *this;
}

std::string Json::dump(int indent) const {
  std::string out;
  Dumper(out, indent).dump(*this);
  return out;
}

}  // namespace quire::formats
