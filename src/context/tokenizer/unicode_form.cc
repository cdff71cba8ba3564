#include "context/tokenizer/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace quire::context {
namespace {

struct CharacterRange {
  uint32_t first;
  uint32_t last;
};

/// Characters that normalization treats specially since some version after Unicode 9: marks, and
/// parts of composed characters. Hugging Face's tokenizers normalize by Unicode 9, where these did
/// not exist and so are left alone; utf8proc knows them, more of them with each release.
constexpr CharacterRange kAfterUnicode9[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},
    {0xECE, 0xECE},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x105C0, 0x105F3}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D},
    {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11380, 0x113D0},
    {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x1145E, 0x1145E}, {0x1171E, 0x1171E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F00, 0x11F01}, {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42},
    {0x11F5A, 0x11F5A}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x16100, 0x1612F},
    {0x16D63, 0x16D6C}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}};

bool is_after_unicode_9(uint32_t c) {
  const auto* after = std::ranges::upper_bound(kAfterUnicode9, c, {}, &CharacterRange::first);
  return after != std::begin(kAfterUnicode9) && c <= std::prev(after)->last;
}

bool is_between(uint32_t c, uint32_t first, uint32_t last) {
  return c >= first && c <= last;
}

bool is_composed(UnicodeForm form) {
  return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
}

bool is_compatible(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

/// Whether the form leaves `c` as it is and nothing before `c` can combine with it: class 0 and
/// quick-check "yes" (UAX 15, section 9). Not all such characters, but those that fill most texts.
bool is_settled(uint32_t c, UnicodeForm form) {
  if (c < 0x80 || is_between(c, 0x4E00, 0x9FFF)) return true;  // ASCII, CJK ideographs
  if (is_compatible(form)) return false;
  if (is_between(c, 0x1F300, 0x1FAFF)) return true;  // emoji
  if (!is_composed(form)) return c < 0xC0;
  return c < 0x300 || is_between(c, 0x410, 0x44F) ||                        // Latin, Russian
         is_between(c, 0x3041, 0x3096) || is_between(c, 0x30A1, 0x30FA) ||  // kana
         is_between(c, 0xAC00, 0xD7A3) || is_between(c, 0x2010, 0x2027);    // Hangul, dashes
}

std::vector<int32_t> decompose(std::string_view well_formed, UnicodeForm form) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible(form) ? UTF8PROC_COMPAT : 0));
  std::vector<int32_t> out;
  std::vector<int32_t> one(4);
  while (!well_formed.empty()) {
    const Utf8Char c = utf8_next(well_formed);
    well_formed.remove_prefix(static_cast<size_t>(c.bytes));
    int last_class = 0;
    const auto decompose_into = [&](std::vector<int32_t>& room) {
      return utf8proc_decompose_char(static_cast<int32_t>(c.code_point), room.data(),
                                     static_cast<utf8proc_ssize_t>(room.size()), options,
                                     &last_class);
    };
    utf8proc_ssize_t count = decompose_into(one);
    if (count > static_cast<utf8proc_ssize_t>(one.size())) {
      one.resize(static_cast<size_t>(count));
      count = decompose_into(one);
    }
    QUIRE_CHECK(count >= 0, "a scalar value must decompose");
    out.insert(out.end(), one.begin(), one.begin() + count);
  }
  return out;
}

/// The canonical ordering algorithm: marks between two starters, stably by combining class.
void order_marks(std::vector<int32_t>& characters) {
  const auto mark_class = [](int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t begin = 0; begin < characters.size();) {
    if (mark_class(characters[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < characters.size() && mark_class(characters[end]) != 0) ++end;
    std::stable_sort(characters.begin() + static_cast<ptrdiff_t>(begin),
                     characters.begin() + static_cast<ptrdiff_t>(end),
                     [&](int32_t a, int32_t b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
}

std::string normalized(std::string_view well_formed, UnicodeForm form) {
  std::vector<int32_t> characters = decompose(well_formed, form);
  order_marks(characters);
  if (is_composed(form)) {
    const utf8proc_ssize_t length = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    QUIRE_CHECK(length >= 0, "composing cannot fail");
    characters.resize(static_cast<size_t>(length));
  }
  std::string out;
  for (const int32_t c : characters) utf8_append(out, static_cast<uint32_t>(c));
  return out;
}

/// Whether normalization neither changes `c` nor lets anything around it pass or join it.
bool is_wall(const Utf8Char& c) {
  return !c.valid || is_after_unicode_9(c.code_point);
}

/// The next stretch at or after `from` that the form may change: unsettled characters, with the
/// settled one before them, which they may combine with. Empty at the end of the text.
ByteRange next_unsettled(std::string_view text, size_t from, UnicodeForm form) {
  size_t before = from;  // start of the character just passed, if marks may join it
  size_t at = from;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      before = at++;
      continue;
    }
    const Utf8Char c = utf8_next(text.substr(at));
    const bool wall = is_wall(c);
    if (!wall && !is_settled(c.code_point, form)) break;
    before = at;
    at += static_cast<size_t>(c.bytes);
    if (wall) before = at;
  }
  size_t end = at;
  while (end < text.size()) {
    const Utf8Char c = utf8_next(text.substr(end));
    if (is_wall(c) || is_settled(c.code_point, form)) break;
    end += static_cast<size_t>(c.bytes);
  }
  return at < text.size() ? ByteRange{before, end} : ByteRange{text.size(), text.size()};
}

}  // namespace

void normalize_unicode(AlignedText& text, UnicodeForm form) {
  const std::string_view old = text.text();
  AlignedText::Rewriter rewriter(text);
  size_t kept = 0;
  bool changed = false;
  ByteRange stretch = next_unsettled(old, 0, form);
  for (; stretch.begin < old.size(); stretch = next_unsettled(old, stretch.end, form)) {
    const std::string_view before = old.substr(stretch.begin, stretch.end - stretch.begin);
    const std::string after = normalized(before, form);
    if (after == before) continue;
    rewriter.keep(kept, stretch.begin);
    rewriter.write(after, stretch.begin);
    kept = stretch.end;
    changed = true;
  }
  if (!changed) return;
  rewriter.keep(kept, old.size());
  rewriter.finish();
}

}  // namespace quire::context
