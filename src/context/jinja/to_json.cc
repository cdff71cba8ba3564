#include "context/jinja/to_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"

namespace quire::context::jinja {
namespace {

std::string unicode_escape(uint32_t c) {
  if (c < 0x10000) return fmt::format("\\u{:04x}", c);
  const uint32_t rest = c - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

/// The escape of a character, or nothing if JSON prints it as it is.
std::string json_escape(uint32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  return c < 0x20 || (ensure_ascii && c > 0x7e) ? unicode_escape(c) : std::string();
}

std::string json_float(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return float_repr(number);
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  Result<void> write(const Value& value) {
    if (!runtime_.budget.spend(1)) return Budget::exhausted();
    const Origin origin = value.origin();
    if (const Text* text = value.as_text()) return write_text(*text, origin);
    if (value.is_none()) {
      out_.append("null", origin);
    } else if (value.is_bool()) {
      out_.append(value.truthy() ? "true" : "false", origin);
    } else if (value.is_int()) {
      out_.append(std::to_string(*value.as_integer()), origin);
    } else if (value.is_float()) {
      out_.append(json_float(*value.as_double()), origin);
    } else if (const Dict* dict = value.as_dict()) {
      return write_dict(*dict, origin);
    } else {
      const Sequence* sequence = value.as_sequence();
      if (sequence != nullptr && sequence->kind <= SequenceKind::kTuple) {
        return write_list(sequence->items, origin);
      }
      return template_error(
          fmt::format("an object of type {} cannot become JSON", value.type_name()));
    }
    return {};
  }

  Text take() { return std::move(out_); }

 private:
  Result<void> write_text(const Text& text, Origin origin) {
    if (!runtime_.budget.spend(text.size() / 8 + 1)) return Budget::exhausted();
    out_.append("\"", origin);
    size_t plain = 0;
    for (size_t i = 0; i < text.size();) {
      const Utf8Char next = utf8_next(text.bytes().substr(i));
      const std::string escape = json_escape(next.code_point, style_.ensure_ascii);
      if (!escape.empty()) {
        out_.append(text, plain, i);
        out_.append(escape, text.origin_at(i));
        plain = i + static_cast<size_t>(next.bytes);
      }
      i += static_cast<size_t>(next.bytes);
    }
    out_.append(text, plain, text.size());
    out_.append("\"", origin);
    return {};
  }

  Result<void> write_key(const Value& key, Origin origin) {
    if (const Text* text = key.as_text()) return write_text(*text, origin);
    const bool scalar = key.is_number() || key.is_none();
    if (!scalar) return template_error("a key that is no string cannot become JSON");
    out_.append("\"", origin);
    QUIRE_TRY_VOID(write(key));
    out_.append("\"", origin);
    return {};
  }

  Result<void> new_line(Origin origin) {
    if (!style_.indent) return {};
    const size_t bytes = style_.indent->size() * static_cast<size_t>(level_) + 1;
    if (!runtime_.budget.spend_bytes(bytes)) return Budget::exhausted();
    out_.append("\n", origin);
    for (int i = 0; i < level_; ++i) out_.append(*style_.indent, origin);
    return {};
  }

  Result<void> write_list(const std::vector<Value>& items, Origin origin) {
    out_.append("[", origin);
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, origin);
      QUIRE_TRY_VOID(new_line(origin));
      QUIRE_TRY_VOID(write(items[i]));
    }
    --level_;
    if (!items.empty()) QUIRE_TRY_VOID(new_line(origin));
    out_.append("]", origin);
    return {};
  }

  Result<std::vector<const Dict::Entry*>> ordered_entries(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (!style_.sort_keys) return entries;
    for (const Dict::Entry* entry : entries) {
      if (!entry->first.is_string()) return template_error("only string keys can be sorted");
    }
    if (!runtime_.budget.spend(entries.size() * 4)) return Budget::exhausted();
    std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
      return a->first.as_text()->bytes() < b->first.as_text()->bytes();
    });
    return entries;
  }

  Result<void> write_dict(const Dict& dict, Origin origin) {
    QUIRE_TRY(const auto entries, ordered_entries(dict));
    out_.append("{", origin);
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, origin);
      QUIRE_TRY_VOID(new_line(origin));
      QUIRE_TRY_VOID(write_key(entries[i]->first, origin));
      out_.append(style_.key_separator, origin);
      QUIRE_TRY_VOID(write(entries[i]->second));
    }
    --level_;
    if (!entries.empty()) QUIRE_TRY_VOID(new_line(origin));
    out_.append("}", origin);
    return {};
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  int level_ = 0;
  Text out_;
};

}  // namespace

Result<Text> to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  QUIRE_TRY_VOID(writer.write(value));
  return writer.take();
}

}  // namespace quire::context::jinja
