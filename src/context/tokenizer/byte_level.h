// byte_level.h: GPT-2's spelling of bytes as printable characters.
//
// A byte-level vocabulary writes each byte as one character: "Ġthe" is " the". The map is one to
// one over all 256 bytes. Source: openai/gpt-2, encoder.py, bytes_to_unicode(). Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::context {

/// The bytes that `spelled` stands for; nothing if a character of it stands for no byte.
std::optional<std::string> byte_level_decode(std::string_view spelled);

/// The character that stands for `byte`, in UTF-8; valid for ever.
std::string_view byte_level_character(uint8_t byte);

/// The byte that a character stands for; nothing if it stands for none.
std::optional<uint8_t> byte_level_byte(uint32_t code_point);

/// The byte that "<0x0A>" names; nothing for any other spelling.
std::optional<uint8_t> byte_token_value(std::string_view spelled);

}  // namespace quire::context
