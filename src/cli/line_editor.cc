#include "cli/line_editor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/graphemes.h"
#include "cli/interrupt.h"

namespace quire::cli {
namespace {

constexpr std::string_view kFence = "\"\"\"";
constexpr int kTabColumns = 4;

/// A cluster as it is drawn: control characters would move the cursor behind our back.
std::string_view visible(std::string_view cluster) {
  if (cluster == "\t") return "    ";
  const auto first = static_cast<unsigned char>(cluster.front());
  return first < 0x20 || first == 0x7f ? std::string_view("?") : cluster;
}

void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

ScreenLayout lay_out(std::string_view text, size_t cursor, int indent, int width) {
  ScreenLayout out;
  int row = 0;
  int column = indent;
  const auto next_row = [&](int at) {
    out.drawn += "\r\n" + std::string(static_cast<size_t>(at), ' ');
    ++row;
    column = at;
  };
  const auto mark_cursor = [&] {
    out.cursor_row = row;
    out.cursor_column = column;
  };
  size_t at = 0;
  while (at < text.size()) {
    if (at == cursor) mark_cursor();
    const size_t length = first_grapheme(text.substr(at));
    const std::string_view cluster = text.substr(at, length);
    at += length;
    if (cluster == "\n") {
      next_row(indent < width ? indent : 0);
      continue;
    }
    const std::string_view shown = visible(cluster);
    const int columns = cluster == "\t" ? kTabColumns : grapheme_width(shown);
    if (column + columns > width) {
      next_row(0);
      // The cursor stands on the character it is before, not at the edge it left.
      if (at - length == cursor) mark_cursor();
    }
    out.drawn += shown;
    column += columns;
  }
  // A full row leaves the terminal's cursor at its edge: the next row is where typing goes on.
  if (column >= width) next_row(0);
  if (cursor >= text.size()) mark_cursor();
  out.last_row = row;
  return out;
}

LineEditor::LineEditor(const Environment& env)
    : env_(env),
      on_terminal_(::isatty(::fileno(env.in)) != 0 && ::isatty(::fileno(env.out)) != 0) {}

LineEditor::Input LineEditor::read(std::string_view prompt, std::string initial) {
  Input input = read_line(prompt, std::move(initial));
  if (input.kind != Input::Kind::kMessage || !input.text.starts_with(kFence)) return input;
  std::string text = input.text.substr(kFence.size());
  const std::string more(static_cast<size_t>(text_width(prompt)), '.');
  while (text.find(kFence) == std::string::npos) {
    input = read_line(more.substr(0, more.size() - 1) + " ", "");
    // An input that ends inside the quotes is still a message.
    if (input.kind == Input::Kind::kEndOfFile) break;
    if (input.kind == Input::Kind::kInterrupted) return input;
    text += '\n' + input.text;
  }
  text = text.substr(0, text.find(kFence));
  if (text.starts_with('\n')) text.erase(0, 1);
  if (text.ends_with('\n')) text.pop_back();
  return {Input::Kind::kMessage, std::move(text)};
}

LineEditor::Input LineEditor::read_line(std::string_view prompt, std::string initial) {
  if (on_terminal_) return read_edited(prompt, std::move(initial));
  bool ended = false;
  std::string line = plain_line(ended);
  if (interrupted()) return {Input::Kind::kInterrupted, ""};
  if (ended && line.empty()) return {Input::Kind::kEndOfFile, ""};
  return {Input::Kind::kMessage, std::move(line)};
}

std::string LineEditor::plain_line(bool& ended) {
  std::string line;
  char c = 0;
  for (;;) {
    const ssize_t got = ::read(::fileno(env_.in), &c, 1);
    if (got < 0 && errno == EINTR && !interrupted()) continue;
    if (got <= 0) {
      ended = true;
      return line;
    }
    if (c == '\n') break;
    line += c;
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

LineEditor::Input LineEditor::read_edited(std::string_view prompt, std::string initial) {
  const RawMode raw(::fileno(env_.in), env_.out);
  buffer_.assign(std::move(initial));
  browsing_ = history_.size();
  cursor_row_ = 0;
  draw(prompt);
  std::array<char, 4096> bytes;
  for (;;) {
    while (!pending_.empty()) {
      const KeyPress press = pending_.front();
      pending_.erase(pending_.begin());
      const auto input = apply(press);
      if (!input) continue;
      draw(prompt);
      leave_drawing();
      return *input;
    }
    draw(prompt);
    const ssize_t got = ::read(::fileno(env_.in), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR && !interrupted()) continue;
    if (got <= 0) {
      leave_drawing();
      return {interrupted() ? Input::Kind::kInterrupted : Input::Kind::kEndOfFile, ""};
    }
    pending_ = keys_.push({bytes.data(), static_cast<size_t>(got)});
  }
}

std::optional<LineEditor::Input> LineEditor::apply(const KeyPress& press) {
  switch (press.key) {
    case Key::kText:
      buffer_.insert(press.text);
      break;
    case Key::kNewline:
      buffer_.insert("\n");
      break;
    case Key::kEnter: {
      std::string text = buffer_.text();
      buffer_.end();
      if (!text.empty() && (history_.empty() || history_.back() != text)) history_.push_back(text);
      return Input{Input::Kind::kMessage, std::move(text)};
    }
    case Key::kInterrupt:
      return Input{Input::Kind::kInterrupted, ""};
    case Key::kEndOfFile:
      if (buffer_.text().empty()) return Input{Input::Kind::kEndOfFile, ""};
      buffer_.delete_right();
      break;
    case Key::kLeft:
      buffer_.left();
      break;
    case Key::kRight:
      buffer_.right();
      break;
    case Key::kUp:
      browse(-1);
      break;
    case Key::kDown:
      browse(1);
      break;
    case Key::kWordLeft:
      buffer_.word_left();
      break;
    case Key::kWordRight:
      buffer_.word_right();
      break;
    case Key::kHome:
      buffer_.home();
      break;
    case Key::kEnd:
      buffer_.end();
      break;
    case Key::kBackspace:
      buffer_.backspace();
      break;
    case Key::kDelete:
      buffer_.delete_right();
      break;
    case Key::kDeleteWord:
      buffer_.delete_word_left();
      break;
    case Key::kCutRight:
      buffer_.cut_right();
      break;
    case Key::kCutLeft:
      buffer_.cut_left();
      break;
    case Key::kYank:
      buffer_.yank();
      break;
    case Key::kClearScreen:
      put(env_.out, "\x1b[2J\x1b[H");
      cursor_row_ = 0;
      break;
  }
  return std::nullopt;
}

void LineEditor::browse(int step) {
  const auto count = static_cast<int64_t>(history_.size());
  const int64_t target = static_cast<int64_t>(browsing_) + step;
  if (target < 0 || target > count) return;
  if (browsing_ == history_.size()) unfinished_ = buffer_.text();
  browsing_ = static_cast<size_t>(target);
  buffer_.assign(target == count ? unfinished_ : history_[browsing_]);
}

/// Redraws everything below the prompt's row: lines are short and terminals fast.
void LineEditor::draw(std::string_view prompt) {
  const int width = terminal_width(::fileno(env_.out));
  const int indent = text_width(prompt);
  const ScreenLayout layout = lay_out(buffer_.text(), buffer_.cursor(), indent, width);
  const Style style = style_for(env_, env_.out);
  std::string screen = "\r";
  if (cursor_row_ > 0) screen += fmt::format("\x1b[{}A", cursor_row_);
  screen += fmt::format("\x1b[J{}{}{}{}", style.bold, prompt, style.reset, layout.drawn);
  if (layout.last_row > layout.cursor_row) {
    screen += fmt::format("\x1b[{}A", layout.last_row - layout.cursor_row);
  }
  screen += '\r';
  if (layout.cursor_column > 0) screen += fmt::format("\x1b[{}C", layout.cursor_column);
  cursor_row_ = layout.cursor_row;
  last_row_ = layout.last_row;
  put(env_.out, screen);
  std::fflush(env_.out);
}

void LineEditor::leave_drawing() {
  if (last_row_ > cursor_row_) put(env_.out, fmt::format("\x1b[{}B", last_row_ - cursor_row_));
  put(env_.out, "\r\n");
  std::fflush(env_.out);
  cursor_row_ = 0;
}

}  // namespace quire::cli
