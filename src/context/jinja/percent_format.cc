// Python's "format % arguments": flags, width, precision, and %s %r %d %i %u %f %e %g %x %o %c %%.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"

namespace quire::context::jinja {
namespace {

/// Beyond this a width or precision is an attack, not a layout.
constexpr int64_t kMaxWidth = 10'000;

struct Directive {
  bool left_aligned = false, plus = false, space = false, zero = false, alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char conversion = '\0';
};

class Formatter {
 public:
  Formatter(Runtime& runtime, const Text& format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {
    const Sequence* sequence = arguments.as_sequence();
    if (sequence != nullptr && sequence->kind == SequenceKind::kTuple) tuple_ = sequence;
  }

  Result<Value> run() {
    const std::string_view bytes = format_.bytes();
    size_t plain = 0;
    while (true) {
      const size_t percent = bytes.find('%', at_);
      if (percent == std::string_view::npos) break;
      out_.append(format_, plain, percent);
      at_ = percent + 1;
      QUIRE_TRY_VOID(format_one(percent));
      plain = at_;
    }
    out_.append(format_, plain, format_.size());
    const size_t given = tuple_ != nullptr ? tuple_->items.size() : 1;
    const Sequence* sequence = arguments_.as_sequence();
    // As in Python, what could be asked by key or index may be left unused.
    const bool may_be_unused =
        tuple_ == nullptr && (arguments_.is_dict() || arguments_.is_undefined() ||
                              (sequence != nullptr && sequence->is_indexable()));
    if (!used_mapping_ && next_ < given && !may_be_unused) {
      return template_error("not all arguments were used by the format string");
    }
    return make_text(runtime_, std::move(out_));
  }

 private:
  char peek() const { return at_ < format_.size() ? format_.bytes()[at_] : '\0'; }

  Result<Value> next_argument() {
    if (tuple_ == nullptr && next_ == 0) {
      ++next_;
      return arguments_;
    }
    if (tuple_ == nullptr || next_ >= tuple_->items.size()) {
      return template_error("not enough arguments for the format string");
    }
    return tuple_->items[next_++];
  }

  Result<Value> named_argument() {
    const size_t close = format_.bytes().find(')', at_);
    if (close == std::string_view::npos) return template_error("a format key is never closed");
    const std::string_view name = format_.bytes().substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    if (!arguments_.is_dict()) return template_error("a format with names needs a mapping");
    const Value* value = arguments_.as_dict()->find(name);
    if (value == nullptr) return template_error(fmt::format("the format misses {}", quoted(name)));
    used_mapping_ = true;
    return *value;
  }

  Result<int64_t> parse_number() {
    if (peek() == '*') {
      ++at_;
      QUIRE_TRY(const Value argument, next_argument());
      const auto number = argument.as_integer();
      if (!number || *number > kMaxWidth) return template_error("'*' needs a small integer");
      return *number;
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (peek() - '0');
      if (number > kMaxWidth) return template_error("a format width is too large");
      ++at_;
    }
    return number;
  }

  Result<Directive> parse_directive() {
    Directive directive;
    while (true) {
      const char c = peek();
      if (c == '-')
        directive.left_aligned = true;
      else if (c == '+')
        directive.plus = true;
      else if (c == ' ')
        directive.space = true;
      else if (c == '0')
        directive.zero = true;
      else if (c == '#')
        directive.alternate = true;
      else
        break;
      ++at_;
    }
    QUIRE_TRY(directive.width, parse_number());
    if (directive.width < 0) {
      directive.left_aligned = true;
      directive.width = -directive.width;
    }
    if (peek() == '.') {
      ++at_;
      QUIRE_TRY(directive.precision, parse_number());
      directive.precision = std::max<int64_t>(directive.precision, 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    directive.conversion = peek();
    if (at_ >= format_.size()) return template_error("incomplete format");
    ++at_;
    return directive;
  }

  Result<void> format_one(size_t percent) {
    std::optional<Value> argument;
    if (peek() == '(') {
      QUIRE_TRY(argument, named_argument());
    }
    QUIRE_TRY(const Directive directive, parse_directive());
    if (directive.conversion == '%') {
      out_.append("%", format_.origin_at(percent));
      return {};
    }
    if (!argument) {
      QUIRE_TRY(argument, next_argument());
    }
    QUIRE_TRY(Text converted, convert(directive, *argument));
    pad(directive, converted, format_.origin_at(percent));
    return {};
  }

  Result<Text> convert(const Directive& directive, const Value& value) {
    switch (directive.conversion) {
      case 's':
      case 'r':
      case 'a':
        return convert_text(directive, value);
      case 'c':
        return convert_character(value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return convert_integer(directive, value);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        return convert_float(directive, value);
      default:
        return template_error(
            fmt::format("unsupported format character '{}'", directive.conversion));
    }
  }

  Result<Text> convert_text(const Directive& directive, const Value& value) {
    Text text;
    if (directive.conversion == 's') {
      QUIRE_TRY_VOID(append_str(runtime_, text, value));
    } else {
      QUIRE_TRY_VOID(append_repr(runtime_, text, value));
    }
    if (directive.precision < 0) return text;
    const std::vector<size_t> offsets = text.character_offsets();
    const size_t keep = std::min(static_cast<size_t>(directive.precision), offsets.size() - 1);
    return text.slice(0, offsets[keep]);
  }

  Result<Text> convert_character(const Value& value) {
    if (const Text* text = value.as_text(); text != nullptr && text->num_characters() == 1) {
      return *text;
    }
    const auto code = value.as_integer();
    if (!code || *code < 0 || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff)) {
      return template_error("%c needs a character or its number");
    }
    std::string bytes;
    utf8_append(bytes, static_cast<uint32_t>(*code));
    return Text(std::move(bytes), value.origin());
  }

  std::string with_sign(const Directive& directive, bool is_negative, std::string digits) {
    const char* sign = is_negative ? "-" : directive.plus ? "+" : directive.space ? " " : "";
    const size_t width = static_cast<size_t>(directive.width);
    const size_t length = digits.size() + std::string_view(sign).size();
    if (directive.zero && !directive.left_aligned && length < width) {
      digits.insert(0, width - length, '0');
    }
    return sign + digits;
  }

  Result<Text> convert_integer(const Directive& directive, const Value& value) {
    QUIRE_TRY_VOID(require_defined(value));
    auto number = value.as_integer();
    const bool decimal =
        directive.conversion == 'd' || directive.conversion == 'i' || directive.conversion == 'u';
    if (!number && decimal && value.is_float() && std::fabs(*value.as_double()) < 9.2e18) {
      number = static_cast<int64_t>(*value.as_double());
    }
    if (!number) {
      return template_error(
          fmt::format("%{} needs a number, not '{}'", directive.conversion, value.type_name()));
    }
    const bool is_negative = *number < 0;
    const uint64_t magnitude =
        is_negative ? uint64_t{0} - static_cast<uint64_t>(*number) : static_cast<uint64_t>(*number);
    std::string digits;
    std::string prefix;
    switch (directive.conversion) {
      case 'x':
        digits = fmt::format("{:x}", magnitude);
        prefix = "0x";
        break;
      case 'X':
        digits = fmt::format("{:X}", magnitude);
        prefix = "0X";
        break;
      case 'o':
        digits = fmt::format("{:o}", magnitude);
        prefix = "0o";
        break;
      default:
        digits = std::to_string(magnitude);
    }
    const size_t wanted = static_cast<size_t>(std::max<int64_t>(directive.precision, 0));
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
    if (directive.alternate) digits.insert(0, prefix);
    return Text(with_sign(directive, is_negative, std::move(digits)), value.origin());
  }

  Result<Text> convert_float(const Directive& directive, const Value& value) {
    QUIRE_TRY_VOID(require_defined(value));
    const auto number = value.as_double();
    if (!number) {
      return template_error(
          fmt::format("%{} needs a number, not '{}'", directive.conversion, value.type_name()));
    }
    const int digits = directive.precision < 0 ? 6 : static_cast<int>(directive.precision);
    const double magnitude = std::fabs(*number);
    const char lower = static_cast<char>(directive.conversion | 0x20);
    std::string text;
    if (lower == 'f' || !std::isfinite(magnitude)) {
      text = float_fixed(magnitude, digits);
    } else {
      text.resize(static_cast<size_t>(digits) + 64);
      const auto format = lower == 'e' ? std::chars_format::scientific : std::chars_format::general;
      const int precision = lower == 'g' ? std::max(digits, 1) : digits;
      text.resize(static_cast<size_t>(
          std::to_chars(text.data(), text.data() + text.size(), magnitude, format, precision).ptr -
          text.data()));
    }
    if (directive.conversion < 'a') {
      std::transform(text.begin(), text.end(), text.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    }
    return Text(with_sign(directive, std::signbit(*number), std::move(text)), value.origin());
  }

  void pad(const Directive& directive, const Text& text, Origin origin) {
    const size_t length = text.num_characters();
    const size_t width = static_cast<size_t>(directive.width);
    const std::string spaces(width > length ? width - length : 0, ' ');
    if (!directive.left_aligned) out_.append(spaces, origin);
    out_.append(text);
    if (directive.left_aligned) out_.append(spaces, origin);
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& arguments_;
  const Sequence* tuple_ = nullptr;
  size_t next_ = 0;
  bool used_mapping_ = false;
  size_t at_ = 0;
  Text out_;
};

}  // namespace

Result<Value> percent_format(Runtime& runtime, const Text& format, const Value& arguments) {
  if (!runtime.budget.spend_bytes(format.size())) return Budget::exhausted();
  return Formatter(runtime, format, arguments).run();
}

}  // namespace quire::context::jinja
