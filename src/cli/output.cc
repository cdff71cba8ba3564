#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBarCells = 24;
constexpr auto kProgressInterval = std::chrono::milliseconds(80);

void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

/// A device or a pipe (-o /dev/null) is written to, not replaced by a file.
Result<void> write_file(FileSystem& files, const std::string& path, std::string_view content) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  const bool special = std::filesystem::exists(status) &&
                       !std::filesystem::is_regular_file(status) &&
                       !std::filesystem::is_directory(status);
  if (!special) return files.write_atomically(path, content);
  std::FILE* stream = std::fopen(path.c_str(), "wb");
  bool done = stream != nullptr;
  done = done && std::fwrite(content.data(), 1, content.size(), stream) == content.size();
  done = stream != nullptr && std::fclose(stream) == 0 && done;
  if (done) return {};
  return Error{ErrorCode::kIo, fmt::format("cannot write {}", path)};
}

}  // namespace

Output::Output(const Environment& env, OutputOptions options)
    : env_(env),
      options_(std::move(options)),
      interactive_(options_.file.empty() && !options_.json && ::isatty(::fileno(env.out)) != 0),
      err_is_terminal_(::isatty(::fileno(env.err)) != 0) {}

void Output::text(std::string_view text) {
  if (options_.json || text.empty()) return;
  if (!options_.file.empty()) {
    for_file_ += text;
    return;
  }
  clear_progress();
  write_failed_ |= std::fwrite(text.data(), 1, text.size(), env_.out) != text.size();
  write_failed_ |= std::fflush(env_.out) != 0;
}

void Output::remark(std::string_view sentence) {
  if (options_.quiet) return;
  clear_progress();
  put(env_.err, fmt::format("{}\n", sentence));
}

void Output::complaint(std::string_view sentence) {
  clear_progress();
  put(env_.err, fmt::format("quire: {}\n", sentence));
}

void Output::detail(std::string_view sentence) {
  if (options_.verbose) remark(sentence);
}

void Output::progress(std::string_view what, double share) {
  if (!err_is_terminal_ || options_.quiet) return;
  const Clock::time_point now = Clock::now();
  if (now - last_progress_ < kProgressInterval) return;
  last_progress_ = now;
  progress_shown_ = true;
  const double part = std::clamp(share, 0.0, 1.0);
  const int cells = static_cast<int>(part * kBarCells);
  std::string bar;
  for (int i = 0; i < kBarCells; ++i) bar += i < cells ? "█" : "░";
  put(env_.err, fmt::format("\r\x1b[K{} {} {:.0f} %", what, bar, part * 100.0));
  std::fflush(env_.err);
}

void Output::clear_progress() {
  if (!progress_shown_) return;
  progress_shown_ = false;
  put(env_.err, "\r\x1b[K");
  std::fflush(env_.err);
}

Result<void> Output::flushed() {
  write_failed_ |= std::fflush(env_.out) != 0;
  if (!write_failed_) return {};
  return Error{ErrorCode::kIo, "cannot write to standard output; is the disk full?"};
}

Result<void> Output::finish(const formats::Json& document) {
  clear_progress();
  const std::string content = options_.json ? document.dump() + "\n" : std::move(for_file_);
  if (!options_.file.empty()) return write_file(env_.files, options_.file, content);
  if (options_.json) {
    write_failed_ |= std::fwrite(content.data(), 1, content.size(), env_.out) != content.size();
  }
  return flushed();
}

}  // namespace quire::cli
