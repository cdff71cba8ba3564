#include "base/utf8.h"

#include "base/check.h"

namespace quire {
namespace {

struct Lead {
  int32_t length;  // 0: not a lead byte
  uint8_t second_low;
  uint8_t second_high;
};

/// Unicode 15, table 3-7: what may follow a lead byte.
Lead classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// How many bytes of `text` agree with the character its first byte promises; `length` is the promise.
int32_t matching_bytes(std::string_view text, const Lead& lead) {
  int32_t matched = 1;
  while (matched < lead.length && matched < static_cast<int32_t>(text.size())) {
    const auto byte = static_cast<uint8_t>(text[static_cast<size_t>(matched)]);
    const uint8_t low = matched == 1 ? lead.second_low : 0x80;
    const uint8_t high = matched == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) break;
    ++matched;
  }
  return matched;
}

}  // namespace

Utf8Char utf8_next(std::string_view text) {
  QUIRE_CHECK(!text.empty(), "no character in an empty text");
  const auto first = static_cast<uint8_t>(text[0]);
  const Lead lead = classify(first);
  if (lead.length == 0 || matching_bytes(text, lead) < lead.length) return {first, 1, false};
  if (lead.length == 1) return {first, 1, true};
  uint32_t code_point = first & (0x7Fu >> lead.length);
  for (int32_t i = 1; i < lead.length; ++i) {
    code_point = code_point << 6 | (static_cast<uint8_t>(text[static_cast<size_t>(i)]) & 0x3Fu);
  }
  return {code_point, lead.length, true};
}

void utf8_append(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

size_t utf8_incomplete_tail(std::string_view text) {
  const size_t longest = text.size() < 3 ? text.size() : 3;
  for (size_t tail = longest; tail >= 1; --tail) {
    const std::string_view end = text.substr(text.size() - tail);
    const Lead lead = classify(static_cast<uint8_t>(end[0]));
    if (lead.length > static_cast<int32_t>(tail) &&
        matching_bytes(end, lead) == static_cast<int32_t>(tail)) {
      return tail;
    }
  }
  return 0;
}

bool utf8_is_valid(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = utf8_next(text);
    if (!c.valid) return false;
    text.remove_prefix(static_cast<size_t>(c.bytes));
  }
  return true;
}

size_t utf8_length(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(static_cast<size_t>(utf8_next(text).bytes));
  return count;
}

std::string utf8_sanitized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = utf8_next(text);
    utf8_append(out, c.valid ? c.code_point : 0xFFFD);
    text.remove_prefix(static_cast<size_t>(c.bytes));
  }
  return out;
}

}  // namespace quire
