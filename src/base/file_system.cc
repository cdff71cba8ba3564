#include "base/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace quire {
namespace {

Error io_error(std::string_view verb, const std::string& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {code, fmt::format("cannot {} {}: {}", verb, path, std::strerror(error))};
}

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Closes now and says whether the system agreed.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

class RealMappedFile final : public MappedFile {
 public:
  RealMappedFile(void* address, size_t size) : address_(address), size_(size) {}
  ~RealMappedFile() override {
    if (size_ > 0) ::munmap(address_, size_);
  }
  RealMappedFile(const RealMappedFile&) = delete;
  RealMappedFile& operator=(const RealMappedFile&) = delete;

  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(address_), size_};
  }

  void release(uint64_t offset, uint64_t length) override {
    // Only pages wholly inside the range: its neighbours may still be needed.
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = (offset + page - 1) / page * page;
    const uint64_t end = std::min<uint64_t>(offset + length, size_) / page * page;
    if (begin < end) ::madvise(static_cast<char*>(address_) + begin, end - begin, MADV_DONTNEED);
  }

 private:
  void* address_;
  size_t size_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return io_error("open", path, errno);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error("read", path, errno);
    if (S_ISDIR(status.st_mode)) return io_error("read", path, EISDIR);
    const auto size = static_cast<size_t>(status.st_size);
    if (size == 0) return std::unique_ptr<MappedFile>(std::make_unique<RealMappedFile>(nullptr, 0));
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return io_error("map", path, errno);
    return std::unique_ptr<MappedFile>(std::make_unique<RealMappedFile>(address, size));
  }

  Result<std::string> read(const std::string& path, uint64_t max_bytes) override {
    OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return io_error("open", path, errno);
    std::string content;
    std::vector<char> chunk(1 << 16);
    for (;;) {
      const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return io_error("read", path, errno);
      if (got == 0) return content;
      if (content.size() + static_cast<size_t>(got) > max_bytes) {
        return Error{ErrorCode::kBadFile,
                     fmt::format("{} is longer than the {} bytes it may have", path, max_bytes)};
      }
      content.append(chunk.data(), static_cast<size_t>(got));
    }
  }

  Result<void> write_atomically(const std::string& path, std::string_view content) override {
    // A temporary beside the target, so that the rename stays within one file system.
    std::string temporary = path + ".XXXXXX";
    OwnedFd fd(::mkstemp(temporary.data()));
    if (fd.get() < 0) return io_error("write", path, errno);
    const auto fail = [&](int error) {
      ::unlink(temporary.c_str());
      return io_error("write", path, error);
    };
    while (!content.empty()) {
      const ssize_t put = ::write(fd.get(), content.data(), content.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return fail(errno);
      content.remove_prefix(static_cast<size_t>(put));
    }
    if (::fchmod(fd.get(), 0644) != 0 || ::fsync(fd.get()) != 0) return fail(errno);
    if (!fd.close()) return fail(errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(errno);
    return {};
  }

  bool is_file(const std::string& path) override {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
  }

  bool is_directory(const std::string& path) override {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    std::error_code error;
    std::filesystem::directory_iterator entries(directory, error);
    if (error) return io_error("list", directory, error.value());
    std::vector<std::string> names;
    for (const auto end = std::filesystem::directory_iterator(); entries != end;
         entries.increment(error)) {
      if (error) return io_error("list", directory, error.value());
      names.push_back(entries->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;  // stateless
  return files;
}

}  // namespace quire
