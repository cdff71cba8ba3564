#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace quire {
namespace {

constexpr mode_t kMode = 0644;

Error cannot_write(const std::string& path, int error) {
  return {ErrorCode::kIo, fmt::format("cannot write {}: {}", path, std::strerror(error))};
}

Error exists_already(const std::string& path) {
  return {ErrorCode::kUsage, fmt::format("{} exists already; --force replaces it", path)};
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Makes a name's appearance in a folder survive a power failure.
Result<void> sync_folder(const std::string& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return cannot_write(path, errno);
  const bool synced = ::fsync(folder) == 0 || errno == EINVAL;  // some file systems cannot
  const int error = errno;
  ::close(folder);
  if (!synced) return cannot_write(path, error);
  return {};
}

class RealNewFile final : public NewFile {
 public:
  /// `temporary` is empty for a file without a name.
  RealNewFile(std::string path, IfExists if_exists, int fd, std::string temporary)
      : path_(std::move(path)), if_exists_(if_exists), fd_(fd), temporary_(std::move(temporary)) {}
  ~RealNewFile() override {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  RealNewFile(const RealNewFile&) = delete;
  RealNewFile& operator=(const RealNewFile&) = delete;

  Result<void> reserve(uint64_t bytes) override {
    const int error = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
    // A file system that cannot reserve will complain when it is full.
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) return cannot_write(path_, error);
    return {};
  }

  Result<void> append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return cannot_write(path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(put));
      written_ += static_cast<uint64_t>(put);
    }
    return {};
  }

  Result<void> commit() override {
    // What was reserved too much goes.
    if (::ftruncate(fd_, static_cast<off_t>(written_)) != 0 || ::fchmod(fd_, kMode) != 0 ||
        ::fsync(fd_) != 0) {
      return cannot_write(path_, errno);
    }
    QUIRE_TRY_VOID(if_exists_ == IfExists::kRefuse ? name_unless_taken() : replace());
    return sync_folder(path_);
  }

 private:
  bool link_as(const std::string& name) const {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }

  Result<void> name_unless_taken() {
    if (temporary_.empty()) {
      if (link_as(path_)) return {};
    } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(),
                           RENAME_NOREPLACE) == 0) {
      temporary_.clear();
      return {};
    }
    if (errno == EEXIST) return exists_already(path_);
    return cannot_write(path_, errno);
  }

  Result<void> replace() {
    // A name of our own first: only a rename replaces in one step.
    for (int i = 0; temporary_.empty(); ++i) {
      const std::string between = fmt::format("{}.{}-{}", path_, ::getpid(), i);
      if (link_as(between)) {
        temporary_ = between;
      } else if (errno != EEXIST) {
        return cannot_write(path_, errno);
      }
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
    temporary_.clear();
    return {};
  }

  std::string path_;
  IfExists if_exists_;
  int fd_;
  std::string temporary_;  // this name is removed at the end
  uint64_t written_ = 0;
};

}  // namespace

Result<std::unique_ptr<NewFile>> create_file(const std::string& path, IfExists if_exists) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      return Error{ErrorCode::kUsage, fmt::format("{} is a folder, not a file to write", path)};
    }
    if (!S_ISREG(status.st_mode)) {
      return Error{ErrorCode::kUsage, fmt::format("{} is no ordinary file to write", path)};
    }
    if (if_exists == IfExists::kRefuse) return exists_already(path);
  }
  int fd = ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, kMode);
  std::string temporary;
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    temporary = path + ".XXXXXX";
    fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  }
  if (fd < 0) return cannot_write(path, errno);
  return std::unique_ptr<NewFile>(
      std::make_unique<RealNewFile>(path, if_exists, fd, std::move(temporary)));
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace quire
