#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace quire::cli {

int terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

Style style_for(const Environment& env, std::FILE* stream) {
  if (!env.colour_wanted || ::isatty(::fileno(stream)) == 0) return {};
  return {.dim = "\x1b[2m", .bold = "\x1b[1m", .reset = "\x1b[0m"};
}

RawMode::RawMode(int in, std::FILE* out) : in_(in), out_(out) {
  ::tcgetattr(in_, &saved_);
  termios raw = saved_;
  raw.c_iflag &= static_cast<tcflag_t>(~(BRKINT | ICRNL | INPCK | ISTRIP | IXON));
  raw.c_cflag |= CS8;
  raw.c_lflag &= static_cast<tcflag_t>(~(ECHO | ICANON | IEXTEN | ISIG));
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(in_, TCSADRAIN, &raw);
  std::fputs("\x1b[?2004h", out_);
  std::fflush(out_);
}

RawMode::~RawMode() {
  std::fputs("\x1b[?2004l", out_);
  std::fflush(out_);
  ::tcsetattr(in_, TCSADRAIN, &saved_);
}

}  // namespace quire::cli
