#include "context/jinja/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/utf8.h"

namespace quire::context::jinja {
namespace {

struct Range {
  uint32_t first, last, step;
};
struct Mapping {
  uint32_t first, last, step;
  int32_t delta;
};
struct SpecialMapping {
  uint32_t from;
  const char* to;
};

#include "context/jinja/unicode_tables.inc"

template <class Row>
const Row* find_row(std::span<const Row> rows, uint32_t c) {
  const auto after =
      std::upper_bound(rows.begin(), rows.end(), c,
                       [](uint32_t value, const Row& row) { return value < row.first; });
  if (after == rows.begin()) return nullptr;
  const Row& row = *std::prev(after);
  return c <= row.last && (c - row.first) % row.step == 0 ? &row : nullptr;
}

bool in(std::span<const Range> rows, uint32_t c) {
  return find_row(rows, c) != nullptr;
}

void append_mapped(std::string& out, uint32_t c, std::span<const Mapping> rows,
                   std::span<const SpecialMapping> specials) {
  const auto special =
      std::lower_bound(specials.begin(), specials.end(), c,
                       [](const SpecialMapping& row, uint32_t value) { return row.from < value; });
  if (special != specials.end() && special->from == c) {
    out += special->to;
    return;
  }
  const Mapping* row = find_row(rows, c);
  utf8_append(out,
              row == nullptr ? c : static_cast<uint32_t>(static_cast<int64_t>(c) + row->delta));
}

}  // namespace

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_printable(uint32_t c) {
  return c < 0x7f ? c >= 0x20 : in(kPrintable, c);
}
bool is_alpha(uint32_t c) {
  return in(kAlpha, c);
}
bool is_decimal(uint32_t c) {
  return in(kDecimal, c);
}
bool is_digit(uint32_t c) {
  return in(kDigit, c);
}
bool is_numeric(uint32_t c) {
  return in(kNumeric, c);
}
bool is_lower(uint32_t c) {
  return in(kLowercase, c);
}
bool is_upper(uint32_t c) {
  return in(kUppercase, c);
}

void append_upper(std::string& out, uint32_t c) {
  append_mapped(out, c, kToUpper, kToUpperSpecial);
}
void append_lower(std::string& out, uint32_t c) {
  append_mapped(out, c, kToLower, kToLowerSpecial);
}
void append_title(std::string& out, uint32_t c) {
  append_mapped(out, c, kToTitle, kToTitleSpecial);
}

size_t leading_space_bytes(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const Utf8Char next = utf8_next(text.substr(begin));
    if (!is_space(next.code_point)) break;
    begin += static_cast<size_t>(next.bytes);
  }
  return begin;
}

size_t length_without_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
    if (!is_space(utf8_next(text.substr(start)).code_point)) break;
    end = start;
  }
  return end;
}

}  // namespace quire::context::jinja
