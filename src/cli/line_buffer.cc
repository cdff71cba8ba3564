#include "cli/line_buffer.h"

#include <algorithm>

#include "cli/graphemes.h"

namespace quire::cli {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t';
}

}  // namespace

void LineBuffer::assign(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineBuffer::left() {
  if (cursor_ > 0) cursor_ -= last_grapheme(std::string_view(text_).substr(0, cursor_));
}

void LineBuffer::right() {
  if (cursor_ < text_.size()) cursor_ += first_grapheme(std::string_view(text_).substr(cursor_));
}

void LineBuffer::word_left() {
  while (cursor_ > 0 && is_space(text_[cursor_ - 1])) left();
  while (cursor_ > 0 && !is_space(text_[cursor_ - 1])) left();
}

void LineBuffer::word_right() {
  while (cursor_ < text_.size() && is_space(text_[cursor_])) right();
  while (cursor_ < text_.size() && !is_space(text_[cursor_])) right();
}

size_t LineBuffer::line_begin() const {
  if (cursor_ == 0) return 0;
  const size_t line_break = text_.rfind('\n', cursor_ - 1);
  return line_break == std::string::npos ? 0 : line_break + 1;
}

size_t LineBuffer::line_end() const {
  return std::min(text_.find('\n', cursor_), text_.size());
}

void LineBuffer::home() {
  cursor_ = line_begin();
}

void LineBuffer::end() {
  cursor_ = line_end();
}

void LineBuffer::erase(size_t begin, size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void LineBuffer::cut(size_t begin, size_t end) {
  cut_ = text_.substr(begin, end - begin);
  erase(begin, end);
}

void LineBuffer::backspace() {
  const size_t end = cursor_;
  left();
  erase(cursor_, end);
}

void LineBuffer::delete_right() {
  const size_t begin = cursor_;
  right();
  erase(begin, cursor_);
}

void LineBuffer::delete_word_left() {
  const size_t end = cursor_;
  word_left();
  cut(cursor_, end);
}

void LineBuffer::cut_right() {
  // At the end of a line the break itself goes.
  const size_t end = line_end();
  cut(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
}

void LineBuffer::cut_left() {
  cut(line_begin(), cursor_);
}

}  // namespace quire::cli
