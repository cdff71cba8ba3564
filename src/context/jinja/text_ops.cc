#include "context/jinja/text_ops.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/utf8.h"
#include "context/jinja/unicode.h"

namespace quire::context::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

/// Calls visit(code_point, begin, end) for each character.
template <class Visit>
void for_each_character(std::string_view bytes, Visit visit) {
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char next = utf8_next(bytes.substr(i));
    const size_t end = i + static_cast<size_t>(next.bytes);
    visit(next.code_point, i, end);
    i = end;
  }
}

bool is_line_end(uint32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_cased(uint32_t c) {
  return is_lower(c) || is_upper(c) || c == 0x1c5 || c == 0x1c8 || c == 0x1cb || c == 0x1f2;
}

/// Greek capital sigma at the end of a word becomes the final form.
bool is_final_sigma(std::string_view bytes, size_t begin, size_t end) {
  size_t before = begin;
  while (before > 0 && (static_cast<unsigned char>(bytes[before - 1]) & 0xc0) == 0x80) --before;
  if (before == 0) return false;
  if (!is_alpha(utf8_next(bytes.substr(before - 1)).code_point)) return false;
  return end >= bytes.size() || !is_alpha(utf8_next(bytes.substr(end)).code_point);
}

void append_lower_in(std::string& out, std::string_view bytes, uint32_t c, size_t begin,
                     size_t end) {
  if (c == 0x3a3 && is_final_sigma(bytes, begin, end)) {
    utf8_append(out, 0x3c2);
  } else {
    append_lower(out, c);
  }
}

/// Whether a word starts after this character, for Jinja's title filter.
bool starts_word(uint32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

size_t strip_left_end(std::string_view bytes, const Text* characters) {
  if (characters == nullptr) return leading_space_bytes(bytes);
  size_t begin = 0;
  while (begin < bytes.size()) {
    const size_t length = static_cast<size_t>(utf8_next(bytes.substr(begin)).bytes);
    if (characters->bytes().find(bytes.substr(begin, length)) == kNone) break;
    begin += length;
  }
  return begin;
}

size_t strip_right_start(std::string_view bytes, const Text* characters) {
  if (characters == nullptr) return length_without_trailing_space(bytes);
  size_t end = bytes.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(bytes[start]) & 0xc0) == 0x80) --start;
    if (characters->bytes().find(bytes.substr(start, end - start)) == kNone) break;
    end = start;
  }
  return end;
}

}  // namespace

size_t find_bytes(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return kNone;
  if (part.empty()) return from;
  // memmem, not string_view::find, which is quadratic on "aaa...ab" in "aaa...".
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return kNone;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

bool charge_rfind(Runtime& runtime, size_t text_bytes, size_t part_bytes) {
  return runtime.budget.spend((text_bytes / 16 + 1) * (part_bytes / 16 + 1));
}

bool charge_strip(Runtime& runtime, size_t text_bytes, size_t set_bytes) {
  return runtime.budget.spend((text_bytes / 4 + 1) * (set_bytes / 16 + 1));
}

bool charge_input(Runtime& runtime, const Value& input) {
  const Text* text = input.as_text();
  return text == nullptr || runtime.budget.spend(text->size() / 16);
}

Text strip(const Text& text, const Text* characters, Side side) {
  size_t begin = side == Side::kRight ? 0 : strip_left_end(text.bytes(), characters);
  size_t end = text.size();
  if (side != Side::kLeft) end = begin + strip_right_start(text.bytes().substr(begin), characters);
  return text.slice(begin, end);
}

std::vector<Text> split(const Text& text, std::string_view separator, int64_t max_splits) {
  std::vector<Text> parts;
  size_t begin = 0;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t at = find_bytes(text.bytes(), separator, begin);
    if (at == kNone) break;
    parts.push_back(text.slice(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator,
                                   int64_t max_splits) {
  std::vector<Text> parts;
  size_t end = text.size();
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t at = text.bytes().substr(0, end).rfind(separator);
    if (at == kNone) break;
    parts.push_back(text.slice(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_words(const Text& text, int64_t max_splits) {
  std::vector<Text> parts;
  const std::string_view bytes = text.bytes();
  size_t begin = leading_space_bytes(bytes);
  while (begin < bytes.size()) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back(text.slice(begin, bytes.size()));
      break;
    }
    size_t end = begin;
    while (end < bytes.size()) {
      const Utf8Char next = utf8_next(bytes.substr(end));
      if (is_space(next.code_point)) break;
      end += static_cast<size_t>(next.bytes);
    }
    parts.push_back(text.slice(begin, end));
    begin = end + leading_space_bytes(bytes.substr(end));
  }
  return parts;
}

std::vector<Text> split_words_from_right(const Text& text, int64_t max_splits) {
  std::vector<Text> words = split_words(text, -1);
  if (max_splits < 0 || static_cast<int64_t>(words.size()) <= max_splits + 1) return words;
  std::vector<Text> parts(words.end() - max_splits, words.end());
  std::string_view head = text.bytes();
  for (int64_t i = 0; i < max_splits; ++i) {
    head = head.substr(0, length_without_trailing_space(head));
    head = head.substr(0, head.size() - parts[parts.size() - 1 - static_cast<size_t>(i)].size());
  }
  parts.insert(parts.begin(), text.slice(0, length_without_trailing_space(head)));
  return parts;
}

std::vector<Text> split_lines(const Text& text, LineEnds line_ends) {
  std::vector<Text> lines;
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  for_each_character(bytes, [&](uint32_t c, size_t at, size_t end) {
    if (!is_line_end(c) || at < begin) return;
    if (c == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
    lines.push_back(text.slice(begin, line_ends == LineEnds::kKeep ? end : at));
    begin = end;
  });
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Result<Text> replace(Runtime& runtime, const Text& text, std::string_view old,
                     const Text& replacement, int64_t max_count) {
  // Where the replacements go: before each character and at the end for an empty `old`.
  std::vector<size_t> places;
  const auto wants_more = [&] {
    return max_count < 0 || static_cast<int64_t>(places.size()) < max_count;
  };
  if (old.empty()) {
    for (const size_t offset : text.character_offsets()) {
      if (wants_more()) places.push_back(offset);
    }
  } else {
    for (size_t at = find_bytes(text.bytes(), old); at != kNone && wants_more();
         at = find_bytes(text.bytes(), old, at + old.size())) {
      places.push_back(at);
    }
  }
  const auto growth = checked_mul<uint64_t>(places.size(), replacement.size() + 1);
  if (!growth || *growth > runtime.limits.max_output_bytes ||
      !runtime.budget.spend_bytes(text.size() + *growth) ||
      !runtime.budget.spend(places.size() * (replacement.runs().size() + 1))) {
    return Budget::exhausted();
  }
  Text out;
  size_t begin = 0;
  for (const size_t place : places) {
    out.append(text, begin, place);
    out.append(replacement);
    begin = place + old.size();
  }
  out.append(text, begin, text.size());
  return out;
}

Result<Text> join(Runtime& runtime, const Text& separator, const std::vector<Text>& parts) {
  Text out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t bytes = parts[i].size() + separator.size();
    if (out.size() + bytes > runtime.limits.max_output_bytes ||
        !runtime.budget.spend_bytes(bytes) || !runtime.budget.spend(separator.runs().size())) {
      return Budget::exhausted();
    }
    if (i > 0) out.append(separator);
    out.append(parts[i]);
  }
  return out;
}

Text with_case(const Text& text, Case wanted) {
  Text out;
  std::string mapped;
  bool after_cased = false;  // for kTitle
  bool at_start = true;      // for kCapitalize and kTitleWords
  for_each_character(text.bytes(), [&](uint32_t c, size_t begin, size_t end) {
    mapped.clear();
    const bool raise = wanted == Case::kUpper || (wanted == Case::kSwap && is_lower(c)) ||
                       (wanted == Case::kTitleWords && at_start);
    const bool keep = wanted == Case::kSwap && !is_upper(c) && !is_lower(c);
    const bool to_title =
        (wanted == Case::kTitle && !after_cased) || (wanted == Case::kCapitalize && at_start);
    if (raise) {
      append_upper(mapped, c);
    } else if (keep) {
      utf8_append(mapped, c);
    } else if (to_title) {
      append_title(mapped, c);
    } else {
      append_lower_in(mapped, text.bytes(), c, begin, end);
    }
    out.append(mapped, text.origin_at(begin));
    after_cased = is_cased(c);
    at_start = wanted == Case::kTitleWords && starts_word(c);
  });
  return out;
}

Result<Text> pad(Runtime& runtime, const Text& text, int64_t width, const Text& fill, Align align) {
  const int64_t missing = width - static_cast<int64_t>(text.num_characters());
  if (missing <= 0) return text;
  const uint64_t bytes = static_cast<uint64_t>(missing);
  if (bytes > runtime.limits.max_output_bytes / 4 || !runtime.budget.spend(bytes)) {
    return Budget::exhausted();
  }
  // str.center puts the odd blank on the left when the width is odd, as CPython does.
  const int64_t left = align == Align::kLeft    ? 0
                       : align == Align::kRight ? missing
                                                : missing / 2 + (missing & width & 1);
  Text out;
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (int64_t i = left; i < missing; ++i) out.append(fill);
  return out;
}

}  // namespace quire::context::jinja
