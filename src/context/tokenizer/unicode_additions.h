// unicode_additions.h: the characters that Unicode 15, 15.1 and 16 added, by general category.
//
// Hugging Face's tokenizers classify by Unicode 16, Debian 12's PCRE2 by Unicode 14. No character
// left L, N, P, S, M or Z in between, so adding these makes the two agree. Source: the difference
// of UnicodeData.txt 16.0 and 14.0. Immutable data.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace quire::context {

struct UnicodeAddition {
  std::string_view category;  // "Lu"
  uint32_t first;
  uint32_t last;
};

std::span<const UnicodeAddition> unicode_additions();

}  // namespace quire::context
