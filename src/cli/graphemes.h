// graphemes.h: what a reader takes for one character, and how many columns it fills.
//
// Extended grapheme clusters of Unicode (UAX 29) and terminal widths, by utf8proc. Ill-formed bytes
// are clusters of their own, one column wide. Pure functions.
#pragma once
#include <cstddef>
#include <string_view>

namespace quire::cli {

/// Bytes of the first cluster of `text`, which must not be empty.
size_t first_grapheme(std::string_view text);

/// Bytes of the last cluster of `text`, which must not be empty.
size_t last_grapheme(std::string_view text);

/// Columns of one cluster: 0 to 2.
int grapheme_width(std::string_view cluster);

/// Columns of a text without line breaks.
int text_width(std::string_view text);

}  // namespace quire::cli
