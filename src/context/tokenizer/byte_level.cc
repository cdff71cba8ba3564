#include "context/tokenizer/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace quire::context {
namespace {

constexpr uint32_t kNumChars = 256 + 68;  // 68 bytes are not printable and move to U+0100...

constexpr bool is_printable(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The byte of each code point below kNumChars, or -1.
constexpr std::array<int16_t, kNumChars> bytes_by_char() {
  std::array<int16_t, kNumChars> bytes{};
  bytes.fill(-1);
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bytes[is_printable(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr auto kByteOfChar = bytes_by_char();

std::array<std::string, 256> chars_by_byte() {
  std::array<std::string, 256> chars;
  for (uint32_t c = 0; c < kNumChars; ++c) {
    if (kByteOfChar[c] >= 0) utf8_append(chars[static_cast<size_t>(kByteOfChar[c])], c);
  }
  return chars;
}

std::optional<uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::string_view byte_level_character(uint8_t byte) {
  static const std::array<std::string, 256> chars = chars_by_byte();
  return chars[byte];
}

std::optional<uint8_t> byte_level_byte(uint32_t code_point) {
  if (code_point >= kNumChars || kByteOfChar[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(kByteOfChar[code_point]);
}

std::optional<std::string> byte_level_decode(std::string_view spelled) {
  std::string bytes;
  while (!spelled.empty()) {
    const Utf8Char c = utf8_next(spelled);
    const auto byte = c.valid ? byte_level_byte(c.code_point) : std::nullopt;
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    spelled.remove_prefix(static_cast<size_t>(c.bytes));
  }
  return bytes;
}

std::optional<uint8_t> byte_token_value(std::string_view spelled) {
  if (spelled.size() != 6 || !spelled.starts_with("<0x") || spelled[5] != '>') return std::nullopt;
  const auto high = hex_digit(spelled[3]);
  const auto low = hex_digit(spelled[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<uint8_t>(*high << 4 | *low);
}

}  // namespace quire::context
