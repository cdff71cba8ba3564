#include "context/tokenizer/white_space.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "base/utf8.h"

namespace quire::context {
namespace {

/// Unicode's PropList.txt, White_Space.
bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// Alphabetic, Mark, Decimal_Number, Connector_Punctuation or Join_Control.
bool is_word(uint32_t c) {
  switch (utf8proc_category(static_cast<int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
             (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
  }
}

/// The last character, unless the text is empty or ends in ill-formed bytes.
std::optional<Utf8Char> last_character(std::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(4, text.size()); ++bytes) {
    const Utf8Char c = utf8_next(text.substr(text.size() - bytes));
    if (c.valid) {
      if (static_cast<size_t>(c.bytes) != bytes) return std::nullopt;
      return c;
    }
  }
  return std::nullopt;
}

}  // namespace

size_t leading_white_space(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Utf8Char c = utf8_next(text.substr(bytes));
    if (!c.valid || !is_white_space(c.code_point)) break;
    bytes += static_cast<size_t>(c.bytes);
  }
  return bytes;
}

size_t trailing_white_space(std::string_view text) {
  size_t bytes = 0;
  while (const auto c = last_character(text.substr(0, text.size() - bytes))) {
    if (!is_white_space(c->code_point)) break;
    bytes += static_cast<size_t>(c->bytes);
  }
  return bytes;
}

bool starts_with_word(std::string_view text) {
  if (text.empty()) return false;
  const Utf8Char c = utf8_next(text);
  return c.valid && is_word(c.code_point);
}

bool ends_with_word(std::string_view text) {
  const auto c = last_character(text);
  return c && is_word(c->code_point);
}

}  // namespace quire::context
