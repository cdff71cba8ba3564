#include "cli/graphemes.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace quire::cli {

size_t first_grapheme(std::string_view text) {
  utf8proc_int32_t state = 0;
  Utf8Char previous = utf8_next(text);
  auto length = static_cast<size_t>(previous.bytes);
  while (length < text.size() && previous.valid) {
    const Utf8Char next = utf8_next(text.substr(length));
    if (!next.valid ||
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    length += static_cast<size_t>(next.bytes);
    previous = next;
  }
  return length;
}

size_t last_grapheme(std::string_view text) {
  // Clusters can only be found from a known border: the start of the line is one.
  const size_t line = text.substr(0, text.size() - 1).rfind('\n');
  std::string_view rest = line == std::string_view::npos ? text : text.substr(line + 1);
  size_t length = 0;
  while (!rest.empty()) {
    length = first_grapheme(rest);
    rest.remove_prefix(length);
  }
  return length;
}

int grapheme_width(std::string_view cluster) {
  int width = 0;
  while (!cluster.empty()) {
    const Utf8Char c = utf8_next(cluster);
    // A combining mark after its base adds nothing; an emoji sequence is as wide as its widest
    // part.
    const int own = c.valid ? utf8proc_charwidth(static_cast<utf8proc_int32_t>(c.code_point)) : 1;
    width = std::max(width, own);
    // VARIATION SELECTOR-16 asks for the picture, which fills two columns.
    if (c.code_point == 0xFE0F) width = 2;
    cluster.remove_prefix(static_cast<size_t>(c.bytes));
  }
  return width;
}

int text_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const size_t length = first_grapheme(text);
    width += grapheme_width(text.substr(0, length));
    text.remove_prefix(length);
  }
  return width;
}

}  // namespace quire::cli
