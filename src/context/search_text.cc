#include "context/search_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"
#include "context/tokenizer/unicode_form.h"

namespace quire::context {
namespace {

// unicode61 knows the characters of Unicode 6.1; ideographs from here on came later, and it would
// take them for punctuation.
constexpr uint32_t kFirstUnknownIdeograph = 0x2B81E;

std::string normalized(std::string_view text) {
  AlignedText aligned(utf8_sanitized(text), 0, Tracking::kOff);
  normalize_unicode(aligned, UnicodeForm::kNfkc);
  return std::string(aligned.text());
}

/// Characters of scripts that put no spaces between words: Han, Kana, Bopomofo; and Hangul, whose
/// particles stick to the words. https://www.unicode.org/Public/UNIDATA/Blocks.txt
bool is_spaceless(uint32_t c) {
  return c == 0x3005 || c == 0x3007 || (c >= 0x3041 && c <= 0x30FF && c != 0x30FB) ||
         (c >= 0x3105 && c <= 0x312F) || (c >= 0x31A0 && c <= 0x31BF) ||
         (c >= 0x31F0 && c <= 0x31FF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7A3) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

/// What unicode61 makes words of: letters, numbers, private use.
bool is_word_character(uint32_t c) {
  const utf8proc_category_t category = ::utf8proc_category(static_cast<int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
         category == UTF8PROC_CATEGORY_CO;
}

std::vector<uint32_t> characters_of(std::string_view text) {
  std::vector<uint32_t> characters;
  while (!text.empty()) {
    const Utf8Char c = utf8_next(text);
    characters.push_back(c.code_point);
    text.remove_prefix(static_cast<size_t>(c.bytes));
  }
  return characters;
}

void append_term_character(std::string& out, uint32_t c) {
  if (c < kFirstUnknownIdeograph) return utf8_append(out, c);
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += 'u';
  for (int shift = 16; shift >= 0; shift -= 4) out += kDigits[(c >> shift) & 15];
}

/// "缓存页" becomes "缓存 存页", and "页" with the last character.
enum class LastCharacter { kAlone, kOmitted };
std::string bigrams_of(const std::vector<uint32_t>& run, LastCharacter last) {
  std::string out;
  for (size_t i = 0; i < run.size(); ++i) {
    if (i + 1 == run.size() && i > 0 && last == LastCharacter::kOmitted) break;
    if (!out.empty()) out += ' ';
    append_term_character(out, run[i]);
    if (i + 1 < run.size()) append_term_character(out, run[i + 1]);
  }
  return out;
}

struct Term {
  std::vector<uint32_t> characters;
  bool spaceless = false;
};

/// Runs of characters without spaces, and between them what white space separates. `words` are kept
/// only if they hold a letter or digit.
std::vector<Term> terms_of(std::string_view query) {
  std::vector<Term> terms;
  Term term;
  const auto finish = [&] {
    const auto is_word = [](uint32_t c) { return is_word_character(c); };
    if (std::ranges::any_of(term.characters, is_word)) terms.push_back(term);
    term = {};
  };
  for (const uint32_t c : characters_of(normalized(query))) {
    const utf8proc_category_t category = ::utf8proc_category(static_cast<int32_t>(c));
    const bool separates = category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
                           category == UTF8PROC_CATEGORY_ZP || category == UTF8PROC_CATEGORY_CC;
    if (separates || is_spaceless(c) != term.spaceless) finish();
    if (separates) continue;
    term.spaceless = is_spaceless(c);
    term.characters.push_back(c);
  }
  finish();
  return terms;
}

std::string text_of(const std::vector<uint32_t>& characters) {
  std::string text;
  for (const uint32_t c : characters) utf8_append(text, c);
  return text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

std::string match_of(const Term& term, MatchTerms terms) {
  if (!term.spaceless) return "words : " + quoted(text_of(term.characters));
  const std::string bigrams = bigrams_of(term.characters, LastCharacter::kOmitted);
  // One character may begin a bigram or stand alone.
  if (term.characters.size() == 1) return "bigrams : " + quoted(bigrams) + " *";
  if (terms == MatchTerms::kAll) return "bigrams : " + quoted(bigrams);
  std::string any;
  for (size_t begin = 0; begin < bigrams.size();) {
    const size_t end = std::min(bigrams.find(' ', begin), bigrams.size());
    any += (any.empty() ? "bigrams : (" : " OR ") + quoted(bigrams.substr(begin, end - begin));
    begin = end + 1;
  }
  return any + ")";
}

std::vector<uint32_t> lowered(std::vector<uint32_t> characters) {
  for (uint32_t& c : characters) {
    c = static_cast<uint32_t>(::utf8proc_tolower(static_cast<int32_t>(c)));
  }
  return characters;
}

}  // namespace

SearchText search_text(std::string_view text) {
  SearchText out;
  std::vector<uint32_t> run;
  const auto finish = [&] {
    if (run.empty()) return;
    if (!out.bigrams.empty()) out.bigrams += ' ';
    out.bigrams += bigrams_of(run, LastCharacter::kAlone);
    out.words += ' ';
    run.clear();
  };
  for (const uint32_t c : characters_of(normalized(text))) {
    if (is_spaceless(c)) {
      run.push_back(c);
    } else {
      finish();
      utf8_append(out.words, c == 0 ? ' ' : c);
    }
  }
  finish();
  return out;
}

std::string match_expression(std::string_view query, MatchTerms terms) {
  std::string expression;
  for (const Term& term : terms_of(query)) {
    if (!expression.empty()) expression += terms == MatchTerms::kAll ? " AND " : " OR ";
    expression += match_of(term, terms);
  }
  return expression;
}

std::vector<std::string> query_terms(std::string_view query) {
  std::vector<std::string> out;
  for (const Term& term : terms_of(query)) out.push_back(text_of(term.characters));
  return out;
}

std::vector<std::string> index_terms(std::string_view text) {
  const SearchText searched = search_text(text);
  std::vector<std::string> terms;
  std::string term;
  const auto finish = [&] {
    if (!term.empty()) terms.push_back(std::move(term));
    term.clear();
  };
  for (const uint32_t c : lowered(characters_of(searched.words))) {
    if (is_word_character(c)) {
      utf8_append(term, c);
    } else {
      finish();
    }
  }
  finish();
  for (const char c : searched.bigrams) {
    if (c == ' ') {
      finish();
    } else {
      term += c;
    }
  }
  finish();
  return terms;
}

std::string excerpt(std::string_view text, std::string_view query, size_t characters) {
  const std::vector<uint32_t> shown = characters_of(utf8_sanitized(text));
  const std::vector<uint32_t> searched = lowered(shown);
  auto first = searched.end();
  for (const Term& term : terms_of(query)) {
    const std::vector<uint32_t> wanted = lowered(term.characters);
    first = std::min(first,
                     std::search(searched.begin(), searched.end(), wanted.begin(), wanted.end()));
  }
  const size_t found = first == searched.end() ? 0 : static_cast<size_t>(first - searched.begin());
  const size_t begin = found < characters / 3 ? 0 : found - characters / 3;
  const size_t end = std::min(shown.size(), begin + characters);
  std::string out = begin > 0 ? "…" : "";
  for (size_t i = begin; i < end; ++i) {
    const utf8proc_category_t category = ::utf8proc_category(static_cast<int32_t>(shown[i]));
    // Line breaks, and bytes that a terminal would obey.
    utf8_append(out, category == UTF8PROC_CATEGORY_CC ? ' ' : shown[i]);
  }
  return end < shown.size() ? out + "…" : out;
}

}  // namespace quire::context
