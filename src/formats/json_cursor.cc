#include "formats/json_cursor.h"

#include <charconv>

#include "base/utf8.h"

namespace quire::formats {

void JsonCursor::skip_space() {
  const size_t next = text_.find_first_not_of(" \t\n\r", position_);
  position_ = next == std::string_view::npos ? text_.size() : next;
}

bool JsonCursor::at_end() {
  skip_space();
  return position_ == text_.size();
}

bool JsonCursor::take(char punctuation) {
  if (at_end() || text_[position_] != punctuation) return false;
  ++position_;
  return true;
}

std::optional<std::string> JsonCursor::take_string() {
  if (!take('"')) return std::nullopt;
  std::string out;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;  // must be escaped
    ++position_;
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
    } else if (!take_escape(out)) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool JsonCursor::take_escape(std::string& out) {
  if (position_ == text_.size()) return false;
  switch (text_[position_++]) {
    case '"':
      out += '"';
      return true;
    case '\\':
      out += '\\';
      return true;
    case '/':
      out += '/';
      return true;
    case 'b':
      out += '\b';
      return true;
    case 'f':
      out += '\f';
      return true;
    case 'n':
      out += '\n';
      return true;
    case 'r':
      out += '\r';
      return true;
    case 't':
      out += '\t';
      return true;
    case 'u':
      break;
    default:
      return false;
  }
  auto code_point = take_four_hex_digits();
  if (code_point && *code_point >= 0xD800 && *code_point < 0xDC00) {  // first half of a pair
    if (text_.substr(position_, 2) != "\\u") return false;
    position_ += 2;
    const auto low = take_four_hex_digits();
    if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
    code_point = 0x10000 + ((*code_point - 0xD800) << 10) + (*low - 0xDC00);
  } else if (!code_point || (*code_point >= 0xDC00 && *code_point <= 0xDFFF)) {
    return false;
  }
  utf8_append(out, *code_point);
  return true;
}

std::optional<uint32_t> JsonCursor::take_four_hex_digits() {
  const std::string_view digits = text_.substr(position_, 4);
  uint32_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 4 || error != std::errc() || stopped != end) return std::nullopt;
  position_ += 4;
  return value;
}

std::optional<uint64_t> JsonCursor::take_unsigned() {
  skip_space();
  uint64_t value = 0;
  const char* begin = text_.data() + position_;
  const char* end = text_.data() + text_.size();
  const auto [stopped, error] = std::from_chars(begin, end, value);
  if (error != std::errc()) return std::nullopt;
  const bool leading_zero = *begin == '0' && stopped - begin > 1;
  const bool goes_on = stopped != end && (*stopped == '.' || *stopped == 'e' || *stopped == 'E');
  if (leading_zero || goes_on) return std::nullopt;
  position_ += static_cast<size_t>(stopped - begin);
  return value;
}

}  // namespace quire::formats
