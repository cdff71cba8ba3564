// white_space.h: Unicode's White_Space at the ends of a text, and whether a word character is
// there.
//
// As Rust's regex crate defines \s and \w, which decides how added tokens strip and stand alone.
// Pure functions.
#pragma once
#include <cstddef>
#include <string_view>

namespace quire::context {

/// Bytes of white space at the start, at the end.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);

/// Whether the first, the last character is part of a word; false for an empty text.
bool starts_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

}  // namespace quire::context
