// line_editor.h: one message from the user: edited on a terminal, or a line of any other input.
//
// On a terminal: grapheme-wise editing, history, pasted and typed (Alt-Enter) line breaks.
// Anywhere: a message that begins with """ goes on to the next """ over as many lines as it takes.
// Use from one thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/environment.h"
#include "cli/key_decoder.h"
#include "cli/line_buffer.h"
#include "cli/terminal.h"

namespace quire::cli {

class LineEditor {
 public:
  explicit LineEditor(const Environment& env);

  bool on_terminal() const { return on_terminal_; }

  struct Input {
    enum class Kind : uint8_t { kMessage, kInterrupted, kEndOfFile };
    Kind kind;
    std::string text;
  };
  /// Reads a message; `initial` is there to be edited. The prompt appears on terminals only.
  Input read(std::string_view prompt, std::string initial = "");

 private:
  Input read_line(std::string_view prompt, std::string initial);
  Input read_edited(std::string_view prompt, std::string initial);
  std::optional<Input> apply(const KeyPress& press);
  void browse(int step);
  std::string plain_line(bool& ended);

  void draw(std::string_view prompt);
  void leave_drawing();

  const Environment& env_;
  bool on_terminal_;
  std::vector<std::string> history_;
  size_t browsing_ = 0;     // index into history_; its size: the new line
  std::string unfinished_;  // the new line while an old one is shown
  LineBuffer buffer_;
  KeyDecoder keys_;
  std::vector<KeyPress> pending_;  // pressed, but behind the Enter of an earlier message
  int cursor_row_ = 0;             // where the cursor was left, below the first row of the drawing
  int last_row_ = 0;
};

/// How a text lies on a screen after a prompt of `indent` columns, and where the cursor is.
struct ScreenLayout {
  std::string drawn;  // with line breaks where the screen's edge is
  int cursor_row = 0;
  int cursor_column = 0;
  int last_row = 0;
};
ScreenLayout lay_out(std::string_view text, size_t cursor, int indent, int width);

}  // namespace quire::cli
