#include "cli/environment.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/interrupt.h"

namespace quire::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string default_home() {
  const std::string user_home = variable("HOME");
  return (user_home.empty() ? "." : user_home) + "/.local/share/quire";
}

}  // namespace

Environment process_environment() {
  const std::string home = variable("QUIRE_HOME");
  return {.files = real_file_system(),
          .home = home.empty() ? default_home() : home,
          .isa = variable("QUIRE_ISA"),
          .api_key = variable("QUIRE_API_KEY"),
          .colour_wanted = variable("NO_COLOR").empty() && variable("TERM") != "dumb"};
}

Result<std::string> read_all(const Environment& env) {
  std::string content;
  std::array<char, 1 << 16> chunk;
  for (;;) {
    const ssize_t got = ::read(::fileno(env.in), chunk.data(), chunk.size());
    if (interrupted()) return Error{ErrorCode::kInterrupted, ""};
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Error{ErrorCode::kIo,
                   std::string("cannot read standard input: ") + std::strerror(errno)};
    }
    if (got == 0) return content;
    content.append(chunk.data(), static_cast<size_t>(got));
  }
}

}  // namespace quire::cli
