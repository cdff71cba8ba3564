// line_buffer.h: the text being edited and where the cursor stands: what each key does to them.
//
// Moves and deletes by grapheme. No terminal here: state and pure edits, so that tests need none.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace quire::cli {

class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  /// A byte offset, always between two graphemes.
  size_t cursor() const { return cursor_; }

  /// Replaces everything; the cursor goes to the end.
  void assign(std::string text);
  void insert(std::string_view text);

  void left();
  void right();
  void word_left();
  void word_right();
  /// Ends of the cursor's line of the text.
  void home();
  void end();

  void backspace();
  void delete_right();
  void delete_word_left();
  /// To the end or to the start of the line. What was cut can be put back by yank().
  void cut_right();
  void cut_left();
  void yank() { insert(cut_); }

 private:
  void erase(size_t begin, size_t end);
  void cut(size_t begin, size_t end);
  size_t line_begin() const;
  size_t line_end() const;

  std::string text_;
  size_t cursor_ = 0;
  std::string cut_;
};

}  // namespace quire::cli
