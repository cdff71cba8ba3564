#include "cli/run_quire.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTimeout = std::chrono::seconds(60);
constexpr auto kTerminalTimeout = std::chrono::seconds(60);

/// Removed with everything in it when the tests end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire-cli-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const ScratchFolder& scratch() {
  static const ScratchFolder folder;
  return folder;
}

[[noreturn]] void become_quire(const std::vector<std::string>& args, const RunSetup& setup) {
  ::setenv("QUIRE_HOME", scratch().path().c_str(), 1);
  ::unsetenv("QUIRE_ISA");
  for (const auto& [name, value] : setup.env) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv = {const_cast<char*>(QUIRE_BINARY)};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execv(QUIRE_BINARY, argv.data());
  ::_exit(126);
}

int wait_for_exit(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Feeds `in` and collects both outputs until they close.
void exchange(int in_fd, std::string_view in, int out_fd, int err_fd, RunResult& result,
              pid_t child) {
  const Clock::time_point deadline = Clock::now() + kTimeout;
  std::array<pollfd, 3> fds = {pollfd{in_fd, POLLOUT, 0}, pollfd{out_fd, POLLIN, 0},
                               pollfd{err_fd, POLLIN, 0}};
  const auto close_at = [&fds](size_t i) {
    ::close(fds[i].fd);
    fds[i].fd = -1;
  };
  if (in.empty()) close_at(0);
  std::array<char, 65536> bytes;
  while (fds[1].fd >= 0 || fds[2].fd >= 0) {
    if (Clock::now() > deadline) ::kill(child, SIGKILL);
    ::poll(fds.data(), fds.size(), 1000);
    if (fds[0].fd >= 0 && (fds[0].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t put = ::write(fds[0].fd, in.data(), in.size());
      in.remove_prefix(put > 0 ? static_cast<size_t>(put) : in.size());
      if (in.empty()) close_at(0);
    }
    for (size_t i : {size_t{1}, size_t{2}}) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t got = ::read(fds[i].fd, bytes.data(), bytes.size());
      if (got <= 0) {
        close_at(i);
      } else {
        (i == 1 ? result.out : result.err).append(bytes.data(), static_cast<size_t>(got));
      }
    }
  }
  if (fds[0].fd >= 0) close_at(0);
}

}  // namespace

formats::Json RunResult::json() const {
  auto parsed = formats::Json::parse(out, "stdout");
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.error().message << "\nstdout: " << out << "\nstderr: " << err;
    return {};
  }
  return *std::move(parsed);
}

int64_t RunResult::error_lines() const {
  return std::ranges::count(err, '\n');
}

RunResult run_quire(const std::vector<std::string>& args, const RunSetup& setup) {
  ::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> in{}, out{}, err{};
  EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(err.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    become_quire(args, setup);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  RunResult result;
  exchange(in[1], setup.in, out[0], err[0], result, child);
  result.exit_code = wait_for_exit(child);
  return result;
}

TerminalRun::TerminalRun(const std::vector<std::string>& args) {
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (child_ == 0) become_quire(args, {.in = "", .env = {{"TERM", "xterm"}}});
}

TerminalRun::~TerminalRun() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    wait_for_exit(child_);
  }
  if (terminal_ >= 0) ::close(terminal_);
}

void TerminalRun::type(std::string_view keys) {
  while (!keys.empty()) {
    const ssize_t put = ::write(terminal_, keys.data(), keys.size());
    if (put <= 0) return;
    keys.remove_prefix(static_cast<size_t>(put));
  }
}

bool TerminalRun::wait_for(std::string_view text) {
  const Clock::time_point deadline = Clock::now() + kTerminalTimeout;
  std::array<char, 4096> bytes;
  for (;;) {
    const size_t found = screen_.find(text, seen_);
    if (found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    if (Clock::now() > deadline) return false;
    pollfd fd{terminal_, POLLIN, 0};
    if (::poll(&fd, 1, 200) <= 0) continue;
    const ssize_t got = ::read(terminal_, bytes.data(), bytes.size());
    closed_ = got <= 0;
    if (closed_) return false;
    screen_.append(bytes.data(), static_cast<size_t>(got));
  }
}

int TerminalRun::exit_code() {
  // Reads to the end, so that it never blocks on a full terminal.
  wait_for("\x01 is never written");
  if (!closed_) ::kill(child_, SIGKILL);  // it hangs
  const int code = wait_for_exit(child_);
  child_ = -1;
  return code;
}

std::string tiny(std::string_view name) {
  return std::string(QUIRE_TEST_DATA) + "/tiny/" + std::string(name);
}

std::string model_without_template() {
  const std::filesystem::path folder = scratch().path() / "plain";
  std::filesystem::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    std::filesystem::copy_file(tiny("llama_tied/") + file, folder / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  return folder.string();
}

std::string scratch_path(std::string_view name) {
  return (scratch().path() / name).string();
}

std::string scratch_file(std::string_view name, std::string_view content) {
  const std::string path = scratch_path(name);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const formats::Json& at(const formats::Json& json, std::string_view key) {
  static const formats::Json null;
  const formats::Json* found = json.find(key);
  return found != nullptr ? *found : null;
}

}  // namespace quire::cli
