#include "cli/byte_sink.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace quire::cli {

ByteSink::ByteSink(std::FILE* stream, std::string temporary, std::string path)
    : stream_(stream), temporary_(std::move(temporary)), path_(std::move(path)) {}

ByteSink::ByteSink(ByteSink&& other) noexcept
    : stream_(std::exchange(other.stream_, nullptr)),
      temporary_(std::move(other.temporary_)),
      path_(std::move(other.path_)) {}

ByteSink::~ByteSink() {
  if (stream_ == nullptr) return;
  std::fclose(stream_);
  ::unlink(temporary_.c_str());
}

Error ByteSink::failed() const {
  return {ErrorCode::kIo, fmt::format("cannot write {}: {}", path_, std::strerror(errno))};
}

Result<ByteSink> ByteSink::create(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  std::FILE* stream = fd >= 0 ? ::fdopen(fd, "wb") : nullptr;
  ByteSink sink(stream, temporary, path);
  if (stream == nullptr) return sink.failed();
  return sink;
}

Result<void> ByteSink::write(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_) != bytes.size()) return failed();
  return {};
}

Result<void> ByteSink::commit() {
  if (::fchmod(::fileno(stream_), 0644) != 0) return failed();
  std::FILE* stream = std::exchange(stream_, nullptr);
  if (std::fclose(stream) == 0 && std::rename(temporary_.c_str(), path_.c_str()) == 0) return {};
  Error error = failed();
  ::unlink(temporary_.c_str());
  return error;
}

}  // namespace quire::cli
