#include "cli/key_decoder.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"

namespace quire::cli {
namespace {

constexpr std::string_view kPasteBegin = "\x1b[200~";
constexpr std::string_view kPasteEnd = "\x1b[201~";

struct Sequence {
  std::string_view bytes;  // after ESC
  Key key;
};
constexpr std::array kSequences = {
    Sequence{"[A", Key::kUp},          Sequence{"[B", Key::kDown},
    Sequence{"[C", Key::kRight},       Sequence{"[D", Key::kLeft},
    Sequence{"OA", Key::kUp},          Sequence{"OB", Key::kDown},
    Sequence{"OC", Key::kRight},       Sequence{"OD", Key::kLeft},
    Sequence{"[H", Key::kHome},        Sequence{"[F", Key::kEnd},
    Sequence{"OH", Key::kHome},        Sequence{"OF", Key::kEnd},
    Sequence{"[1~", Key::kHome},       Sequence{"[4~", Key::kEnd},
    Sequence{"[7~", Key::kHome},       Sequence{"[8~", Key::kEnd},
    Sequence{"[3~", Key::kDelete},     Sequence{"[1;5C", Key::kWordRight},
    Sequence{"[1;5D", Key::kWordLeft}, Sequence{"[1;3C", Key::kWordRight},
    Sequence{"[1;3D", Key::kWordLeft}, Sequence{"b", Key::kWordLeft},
    Sequence{"f", Key::kWordRight},    Sequence{"\x7f", Key::kDeleteWord},
    Sequence{"\r", Key::kNewline},     Sequence{"\n", Key::kNewline},
};

std::optional<Key> control_key(char c) {
  switch (c) {
    case '\r':
    case '\n':  // typed ahead, while the terminal still translated line ends
      return Key::kEnter;
    case 0x01:
      return Key::kHome;
    case 0x02:
      return Key::kLeft;
    case 0x03:
      return Key::kInterrupt;
    case 0x04:
      return Key::kEndOfFile;
    case 0x05:
      return Key::kEnd;
    case 0x06:
      return Key::kRight;
    case 0x08:
    case 0x7f:
      return Key::kBackspace;
    case 0x0b:
      return Key::kCutRight;
    case 0x0c:
      return Key::kClearScreen;
    case 0x0e:
      return Key::kDown;
    case 0x10:
      return Key::kUp;
    case 0x15:
      return Key::kCutLeft;
    case 0x17:
      return Key::kDeleteWord;
    case 0x19:
      return Key::kYank;
    default:
      return std::nullopt;
  }
}

/// Bytes of the escape sequence at the start of `text` (which begins with ESC), 0 if it is not
/// complete. // ECMA-48, section 5.4: parameters 0x30-0x3f, intermediates 0x20-0x2f, final
/// 0x40-0x7e
size_t sequence_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] == 'O') return text.size() < 3 ? 0 : 3;
  if (text[1] != '[') return 2;
  for (size_t i = 2; i < text.size(); ++i) {
    if (text[i] >= 0x40 && text[i] <= 0x7e) return i + 1;
  }
  return 0;
}

/// Pasted line ends come as carriage returns.
std::string with_newlines(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 >= text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

}  // namespace

bool KeyDecoder::take_paste(std::vector<KeyPress>& keys) {
  const size_t end = held_.find(kPasteEnd);
  if (end == std::string::npos) return false;
  keys.push_back({Key::kText, with_newlines(std::string_view(held_).substr(0, end))});
  held_.erase(0, end + kPasteEnd.size());
  pasting_ = false;
  return true;
}

bool KeyDecoder::take_escape(std::vector<KeyPress>& keys) {
  const size_t length = sequence_length(held_);
  if (length == 0) return false;
  const std::string bytes = held_.substr(1, length - 1);
  pasting_ = std::string_view(held_).substr(0, length) == kPasteBegin;
  held_.erase(0, length);
  const auto known = std::ranges::find(kSequences, bytes, &Sequence::bytes);
  if (known != kSequences.end()) keys.push_back({known->key, ""});
  return true;
}

bool KeyDecoder::take(std::vector<KeyPress>& keys) {
  if (pasting_) return take_paste(keys);
  const char first = held_.front();
  if (first == '\x1b') return take_escape(keys);
  if (const auto key = control_key(first)) {
    keys.push_back({*key, ""});
    held_.erase(0, 1);
    return true;
  }
  const Utf8Char c = utf8_next(held_);
  if (!c.valid && utf8_incomplete_tail(held_) == held_.size()) return false;
  const auto length = static_cast<size_t>(c.bytes);
  const bool printable = c.valid && (c.code_point >= 0x20 || first == '\t');
  if (printable) keys.push_back({Key::kText, held_.substr(0, length)});
  held_.erase(0, length);
  return true;
}

std::vector<KeyPress> KeyDecoder::push(std::string_view bytes) {
  held_ += bytes;
  std::vector<KeyPress> keys;
  while (!held_.empty() && take(keys)) {
  }
  return keys;
}

}  // namespace quire::cli
