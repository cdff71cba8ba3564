// unicode.h: the character properties behind Python's str methods and repr.
//
// Tables come from Python itself (tools/oracle/make_jinja_unicode.py), so that upper(), isalpha()
// or what repr escapes agree with it. Plain functions without state, callable from any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::context::jinja {

bool is_space(uint32_t c);      // str.isspace
bool is_printable(uint32_t c);  // str.isprintable
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit(uint32_t c);
bool is_numeric(uint32_t c);
bool is_lower(uint32_t c);
bool is_upper(uint32_t c);

/// Append the full case mapping of one character: one to three characters.
void append_upper(std::string& out, uint32_t c);
void append_lower(std::string& out, uint32_t c);
void append_title(std::string& out, uint32_t c);

/// Where text.substr(n) starts after dropping whitespace from the front.
size_t leading_space_bytes(std::string_view text);
/// Length of `text` without the whitespace at its end.
size_t length_without_trailing_space(std::string_view text);

}  // namespace quire::context::jinja
