// terminal.h: what a terminal can do and how it is switched to single keys.
//
// Use from one thread.
#pragma once
#include <termios.h>

#include "cli/environment.h"

namespace quire::cli {

/// Columns of the terminal behind `fd`; 80 if it is none.
int terminal_width(int fd);

/// SGR sequences, empty where colour is not wanted or the stream is no terminal.
struct Style {
  const char* dim = "";
  const char* bold = "";
  const char* reset = "";
};
Style style_for(const Environment& env, std::FILE* stream);

/// Single keys without echo and signals, and bracketed paste, until destroyed.
class RawMode {
 public:
  /// Requires `in` to be a terminal.
  RawMode(int in, std::FILE* out);
  ~RawMode();
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  int in_;
  std::FILE* out_;
  termios saved_{};
};

}  // namespace quire::cli
