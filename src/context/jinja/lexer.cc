#include "context/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "context/jinja/unicode.h"

namespace quire::context::jinja {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) {
  return is_name_start(c) || is_ascii_digit(c);
}

/// All line ends as \n, without one newline at the end.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      if (tag == std::string::npos) {
        emit(TokenKind::kData, source_.substr(at_));
        at_ = source_.size();
        break;
      }
      QUIRE_TRY_VOID(lex_tag(tag));
    }
    advance_line(source_.size());
    emit(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  std::string_view rest(size_t from) const { return std::string_view(source_).substr(from); }
  bool starts_with(size_t from, std::string_view text) const {
    return rest(from).substr(0, text.size()) == text;
  }
  size_t skip_space(size_t from) const { return from + leading_space_bytes(rest(from)); }

  void advance_line(size_t to) {
    for (; line_counted_to_ < to; ++line_counted_to_) line_ += source_[line_counted_to_] == '\n';
  }
  void emit(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  size_t next_tag() const {
    for (size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() &&
          std::string_view("%{#").find(source_[i + 1]) != std::string::npos) {
        return i;
      }
    }
    return std::string::npos;
  }

  char sign_at(size_t i) const {
    return i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
  }

  /// Emits [at_, end) as data, stripped as the tag that follows it asks.
  void emit_data_before_tag(size_t end, char sign, bool is_variable) {
    std::string_view text = rest(at_).substr(0, end - at_);
    if (sign == '-') {
      text = text.substr(0, length_without_trailing_space(text));
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool at_line_start = line_start > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      const std::string_view indent = text.substr(line_start);
      if (at_line_start && leading_space_bytes(indent) == indent.size()) {
        text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) emit(TokenKind::kData, std::string(text));
    advance_line(end);
  }

  Result<void> lex_tag(size_t tag) {
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    const size_t inside = tag + 2 + (sign != '\0' ? 1 : 0);
    if (kind == '%') {
      if (const auto raw_body = match_raw_begin(inside)) {
        emit_data_before_tag(tag, sign, false);
        return lex_raw(*raw_body);
      }
    }
    emit_data_before_tag(tag, sign, kind == '{');
    if (kind == '#') return lex_comment(inside);
    emit(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, {});
    at_ = inside;
    return lex_code(kind == '%');
  }

  /// After a block's closing marker at `end`: the marker's length and what it swallows behind it.
  std::optional<size_t> match_close(size_t end, std::string_view marker, bool trims_newline) const {
    if (starts_with(end, "-") && starts_with(end + 1, marker)) {
      return skip_space(end + 1 + marker.size());
    }
    if (trims_newline && starts_with(end, "+") && starts_with(end + 1, marker)) {
      return end + 1 + marker.size();
    }
    if (!starts_with(end, marker)) return std::nullopt;
    const size_t after = end + marker.size();
    return trims_newline && starts_with(after, "\n") ? after + 1 : after;
  }

  /// Where the body of {% raw %} starts, if the tag is one.
  std::optional<size_t> match_raw_begin(size_t inside) const {
    const size_t word = skip_space(inside);
    if (!starts_with(word, "raw")) return std::nullopt;
    const size_t close = skip_space(word + 3);
    if (starts_with(close, "-%}")) return skip_space(close + 3);
    if (starts_with(close, "%}")) return close + 2;
    return std::nullopt;
  }

  Result<void> lex_raw(size_t body) {
    advance_line(body);
    at_ = body;
    for (size_t tag = source_.find("{%", body); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      const size_t word = skip_space(tag + 2 + (sign != '\0' ? 1 : 0));
      if (!starts_with(word, "endraw")) continue;
      const auto after = match_close(skip_space(word + 6), "%}", true);
      if (!after) continue;
      emit_data_before_tag(tag, sign, false);
      advance_line(*after);
      at_ = *after;
      return {};
    }
    return syntax_error(line_, "{% raw %} is never closed by {% endraw %}");
  }

  Result<void> lex_comment(size_t inside) {
    size_t hash = source_.find("#}", inside);
    if (hash == std::string::npos) return syntax_error(line_, "a comment {# is never closed by #}");
    if (hash > inside && (source_[hash - 1] == '-' || source_[hash - 1] == '+')) --hash;
    at_ = *match_close(hash, "#}", true);
    advance_line(at_);
    return {};
  }

  Result<void> lex_code(bool is_block) {
    std::string open_brackets;
    while (true) {
      if (open_brackets.empty()) {
        const auto after = match_close(at_, is_block ? "%}" : "}}", is_block);
        if (after) {
          emit(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, {});
          advance_line(*after);
          at_ = *after;
          return {};
        }
      }
      at_ = skip_space(at_);
      advance_line(at_);
      if (at_ >= source_.size()) return {};  // the parser reports the missing end
      if (open_brackets.empty() && match_close(at_, is_block ? "%}" : "}}", is_block)) continue;
      QUIRE_TRY_VOID(lex_code_token(open_brackets));
    }
  }

  Result<void> lex_code_token(std::string& open_brackets) {
    const char c = source_[at_];
    if (is_ascii_digit(c)) {
      lex_number();
      return {};
    }
    if (is_name_start(c)) {
      size_t end = at_ + 1;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      emit(TokenKind::kName, source_.substr(at_, end - at_));
      at_ = end;
      return {};
    }
    if (c == '\'' || c == '"') return lex_string();
    return lex_operator(open_brackets);
  }

  /// End of digits with single underscores between them, starting at `from`; `from` if none.
  template <class IsDigit>
  size_t digits_end(size_t from, IsDigit is_digit_char) const {
    size_t end = from;
    while (end < source_.size()) {
      const bool underscore = source_[end] == '_' && end > from && end + 1 < source_.size();
      if (is_digit_char(source_[end])) {
        ++end;
      } else if (underscore && is_digit_char(source_[end + 1])) {
        end += 2;
      } else {
        break;
      }
    }
    return end;
  }

  void lex_number() {
    const size_t whole = digits_end(at_, is_ascii_digit);
    size_t end = whole;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.') {
        const size_t fraction = digits_end(end + 1, is_ascii_digit);
        if (fraction > end + 1) end = fraction;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const size_t digits = end + 1 + (sign_at(end + 1) != '\0' ? 1 : 0);
        const size_t exponent = digits_end(digits, is_ascii_digit);
        if (exponent > digits) end = exponent;
      }
    }
    const bool is_float = end > whole;
    if (!is_float) end = integer_end();
    std::string digits = source_.substr(at_, end - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    emit(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    at_ = end;
  }

  size_t integer_end() const {
    if (source_[at_] != '0') return digits_end(at_, is_ascii_digit);
    const char base = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    const auto is_base_digit = [base](char c) {
      const char lower = static_cast<char>(c | 0x20);
      if (base == 'b') return c == '0' || c == '1';
      if (base == 'o') return c >= '0' && c <= '7';
      return is_ascii_digit(c) || (lower >= 'a' && lower <= 'f');
    };
    if (base == 'b' || base == 'o' || base == 'x') {
      const size_t end = digits_end(at_ + 2, is_base_digit);
      if (end > at_ + 2) return end;
    }
    return digits_end(at_, [](char c) { return c == '0'; });
  }

  Result<void> lex_string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return syntax_error(line_, "a string is never closed");
    QUIRE_TRY(std::string text, unescape(rest(at_ + 1).substr(0, end - at_ - 1)));
    emit(TokenKind::kString, std::move(text));
    at_ = end + 1;
    advance_line(at_);
    return {};
  }

  Result<void> lex_operator(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 25> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    for (const std::string_view op : kOperators) {
      if (!starts_with(at_, op)) continue;
      QUIRE_TRY_VOID(track_brackets(op.front(), open_brackets));
      emit(TokenKind::kOperator, std::string(op));
      at_ += op.size();
      return {};
    }
    return syntax_error(line_, fmt::format("unexpected character '{}'", source_[at_]));
  }

  Result<void> track_brackets(char c, std::string& open_brackets) {
    if (c == '(') open_brackets += ')';
    if (c == '[') open_brackets += ']';
    if (c == '{') open_brackets += '}';
    if (c != ')' && c != ']' && c != '}') return {};
    if (open_brackets.empty()) return syntax_error(line_, fmt::format("unexpected '{}'", c));
    const char expected = open_brackets.back();
    open_brackets.pop_back();
    if (expected == c) return {};
    return syntax_error(line_, fmt::format("unexpected '{}', expected '{}'", c, expected));
  }

  /// Python's escapes; a backslash before anything else stays.
  Result<std::string> unescape(std::string_view body) {
    std::string out;
    for (size_t i = 0; i < body.size();) {
      if (body[i] != '\\' || i + 1 >= body.size()) {
        out += body[i++];
        continue;
      }
      QUIRE_TRY(i, unescape_one(body, i, out));
    }
    return out;
  }

  /// Handles the escape at body[i]; gives where the text goes on.
  Result<size_t> unescape_one(std::string_view body, size_t i, std::string& out) {
    static constexpr std::string_view kNames = "\n\\'\"abfnrtv";
    static constexpr std::string_view kValues("\0\\'\"\a\b\f\n\r\t\v", 11);
    const char c = body[i + 1];
    if (c == '\n') return i + 2;
    if (const size_t simple = kNames.find(c); simple != std::string_view::npos) {
      out += kValues[simple];
      return i + 2;
    }
    if (c >= '0' && c <= '7') {
      size_t end = i + 1;
      uint32_t code = 0;
      for (; end < body.size() && end < i + 4 && body[end] >= '0' && body[end] <= '7'; ++end) {
        code = code * 8 + static_cast<uint32_t>(body[end] - '0');
      }
      utf8_append(out, code);
      return end;
    }
    if (c == 'N') return syntax_error(line_, "\\N{...} escapes are not supported");
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) return unescape_hex(body, i + 2, digits, out);
    out += '\\';
    return i + 1;
  }

  Result<size_t> unescape_hex(std::string_view body, size_t from, size_t digits, std::string& out) {
    const std::string_view hex = body.substr(from, digits);
    uint64_t code = 0;
    for (const char c : hex) {
      const char lower = static_cast<char>(c | 0x20);
      const int digit = is_ascii_digit(c)              ? c - '0'
                        : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                       : -1;
      if (digit < 0) return syntax_error(line_, "a string has a broken escape");
      code = code * 16 + static_cast<uint64_t>(digit);
    }
    if (hex.size() < digits || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      return syntax_error(line_, "a string has an escape that is no character");
    }
    utf8_append(out, static_cast<uint32_t>(code));
    return from + digits;
  }

  std::string source_;
  size_t at_ = 0;
  size_t line_counted_to_ = 0;
  int32_t line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Error syntax_error(int32_t line, std::string_view why) {
  return {ErrorCode::kUnsupported, fmt::format("line {}: {}", line, why)};
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    return syntax_error(1, "the template is larger than 1 MiB");
  if (!utf8_is_valid(source)) return syntax_error(1, "the template is not valid UTF-8");
  return Lexer(source).run();
}

}  // namespace quire::context::jinja
