// utf8.h: where characters end in a stream of bytes.
//
// Plain functions without state, callable from any thread. Definition of well-formed: Unicode 15,
// table 3-7.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

struct Utf8Char {
  uint32_t code_point;
  int32_t bytes;  // 1 to 4
  bool valid;     // false: one ill-formed byte, code_point is that byte
};

/// The character at the start of `text`, which must not be empty.
Utf8Char utf8_next(std::string_view text);

/// Appends the encoding of a Unicode scalar value.
void utf8_append(std::string& out, uint32_t code_point);

/// Length of the trailing part of `text` that may still become a character when more bytes follow:
/// 0 to 3.
size_t utf8_incomplete_tail(std::string_view text);

bool utf8_is_valid(std::string_view text);

/// Number of characters; each ill-formed byte counts as one.
size_t utf8_length(std::string_view text);

/// `text` with every ill-formed byte replaced by U+FFFD.
std::string utf8_sanitized(std::string_view text);

}  // namespace quire
