#include "context/jinja/print.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "context/jinja/unicode.h"

namespace quire::context::jinja {
namespace {

/// The escape of a character inside a repr, or nothing if it prints as itself.
std::string repr_escape(uint32_t c, char quote) {
  if (c == static_cast<uint32_t>(quote) || c == '\\') return {'\\', static_cast<char>(c)};
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (is_printable(c)) return {};
  if (c < 0x100) return fmt::format("\\x{:02x}", c);
  if (c < 0x10000) return fmt::format("\\u{:04x}", c);
  return fmt::format("\\U{:08x}", c);
}

void append_text_repr(Text& out, const Text& text, Origin origin) {
  const bool has_single = text.bytes().find('\'') != std::string_view::npos;
  const bool has_double = text.bytes().find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append({&quote, 1}, origin);
  size_t plain = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char next = utf8_next(text.bytes().substr(i));
    const std::string escape = repr_escape(next.code_point, quote);
    if (!escape.empty()) {
      out.append(text, plain, i);
      out.append(escape, text.origin_at(i));
      plain = i + static_cast<size_t>(next.bytes);
    }
    i += static_cast<size_t>(next.bytes);
  }
  out.append(text, plain, text.size());
  out.append({&quote, 1}, origin);
}

Result<void> append_items(Runtime& runtime, Text& out, const Sequence& sequence, Origin origin) {
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out.append(", ", origin);
    QUIRE_TRY_VOID(append_repr(runtime, out, sequence.items[i]));
  }
  return {};
}

Result<void> append_sequence(Runtime& runtime, Text& out, const Sequence& sequence, Origin origin) {
  switch (sequence.kind) {
    case SequenceKind::kGenerator:
      out.append("<generator object>", origin);
      return {};
    case SequenceKind::kRange:
      out.append(sequence.range_step == 1
                     ? fmt::format("range({}, {})", sequence.range_start, sequence.range_stop)
                     : fmt::format("range({}, {}, {})", sequence.range_start, sequence.range_stop,
                                   sequence.range_step),
                 origin);
      return {};
    case SequenceKind::kTuple:
      out.append("(", origin);
      QUIRE_TRY_VOID(append_items(runtime, out, sequence, origin));
      out.append(sequence.items.size() == 1 ? ",)" : ")", origin);
      return {};
    default:
      break;
  }
  const bool is_view = sequence.kind != SequenceKind::kList;
  if (is_view) {
    const Value self(std::make_shared<Sequence>(Sequence{.kind = sequence.kind}));
    out.append(fmt::format("{}(", self.type_name()), origin);
  }
  out.append("[", origin);
  QUIRE_TRY_VOID(append_items(runtime, out, sequence, origin));
  out.append(is_view ? "])" : "]", origin);
  return {};
}

Result<void> append_dict(Runtime& runtime, Text& out, const Dict& dict, Origin origin) {
  out.append("{", origin);
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) out.append(", ", origin);
    first = false;
    QUIRE_TRY_VOID(append_repr(runtime, out, entry.first));
    out.append(": ", origin);
    QUIRE_TRY_VOID(append_repr(runtime, out, entry.second));
  }
  out.append("}", origin);
  return {};
}

}  // namespace

Result<void> append_repr(Runtime& runtime, Text& out, const Value& value) {
  const Origin origin = value.origin();
  if (const Text* text = value.as_text()) {
    if (!runtime.budget.spend(text->size() / 8 + 1)) return Budget::exhausted();
    append_text_repr(out, *text, origin);
    return {};
  }
  if (!runtime.budget.spend(1)) return Budget::exhausted();
  if (const Sequence* sequence = value.as_sequence()) {
    return append_sequence(runtime, out, *sequence, origin);
  }
  if (const Dict* dict = value.as_dict()) return append_dict(runtime, out, *dict, origin);
  if (const Object* object = value.as_object()) {
    out.append(object->repr(), origin);
  } else if (value.is_undefined()) {
    out.append("Undefined", origin);
  } else if (value.is_none()) {
    out.append("None", origin);
  } else if (value.is_bool()) {
    out.append(value.truthy() ? "True" : "False", origin);
  } else if (value.is_float()) {
    out.append(float_repr(*value.as_double()), origin);
  } else {
    out.append(std::to_string(*value.as_integer()), origin);
  }
  return {};
}

Result<void> append_str(Runtime& runtime, Text& out, const Value& value) {
  if (value.is_undefined()) return {};
  const Text* text = value.as_text();
  if (text == nullptr) return append_repr(runtime, out, value);
  if (!runtime.budget.spend_bytes(text->size())) return Budget::exhausted();
  out.append(*text);
  return {};
}

Result<Text> to_text(Runtime& runtime, const Value& value) {
  Text out;
  QUIRE_TRY_VOID(append_str(runtime, out, value));
  return out;
}

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
  const size_t mark = digits.find('e');
  int exponent = 0;
  const size_t skip_plus = digits[mark + 1] == '+' ? 2 : 1;
  std::from_chars(digits.data() + mark + skip_plus, digits.data() + digits.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(digits);
  const auto fixed_end =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed_end);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string float_fixed(double number, int digits) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string buffer(static_cast<size_t>(digits) + 330, '\0');
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::fixed, digits)
                       .ptr;
  buffer.resize(static_cast<size_t>(end - buffer.data()));
  return buffer;
}

std::string quoted(std::string_view text) {
  Text out;
  append_text_repr(out, Text(std::string(text)), kTemplateOrigin);
  return std::string(out.bytes());
}

}  // namespace quire::context::jinja
