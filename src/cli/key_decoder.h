// key_decoder.h: bytes from a terminal become keys.
//
// Knows xterm's and the Linux console's sequences and bracketed paste. A character split over
// several reads is held until it is whole; an unknown sequence is swallowed. Use from one thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

enum class Key : uint8_t {
  kText,  // with the text: one character, or all that was pasted
  kEnter,
  kNewline,  // Alt-Enter: a line break within the text
  kLeft,
  kRight,
  kUp,
  kDown,
  kWordLeft,
  kWordRight,
  kHome,
  kEnd,
  kBackspace,
  kDelete,
  kDeleteWord,
  kCutRight,
  kCutLeft,
  kYank,
  kClearScreen,
  kInterrupt,  // Ctrl-C
  kEndOfFile,  // Ctrl-D
};

struct KeyPress {
  Key key;
  std::string text;
  friend bool operator==(const KeyPress&, const KeyPress&) = default;
};

class KeyDecoder {
 public:
  /// The keys that these bytes complete.
  std::vector<KeyPress> push(std::string_view bytes);

 private:
  /// Takes one key from the front of held_; false if more bytes are needed.
  bool take(std::vector<KeyPress>& keys);
  bool take_escape(std::vector<KeyPress>& keys);
  bool take_paste(std::vector<KeyPress>& keys);

  std::string held_;
  bool pasting_ = false;
};

}  // namespace quire::cli
