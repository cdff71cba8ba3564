// json_cursor.h: takes JSON's tokens off the front of a text, one by one, without building
// anything.
//
// For the safetensors header, which must cost little memory and show its duplicate names;
// everything else is read by Json. Each take_...() skips white space first; one that gives nothing
// may have moved within the bad token, so that position() shows it. The text must be valid UTF-8.
// A cursor: use one from one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::formats {

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// Takes that one character, if it is next.
  bool take(char punctuation);

  /// A string, its escapes resolved; nothing if it is none or malformed.
  std::optional<std::string> take_string();

  /// A plain non-negative integer that fits in 64 bits; nothing for any other number.
  std::optional<uint64_t> take_unsigned();

  /// Whether only white space is left.
  bool at_end();

  size_t position() const { return position_; }

 private:
  void skip_space();
  bool take_escape(std::string& out);
  std::optional<uint32_t> take_four_hex_digits();

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace quire::formats
