#include "base/private_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace quire {
namespace {

Error io_error(const std::string& what, int error) {
  return {ErrorCode::kIo, what + ": " + std::strerror(error)};
}

class UnlinkedFile final : public PrivateFile {
 public:
  UnlinkedFile(int fd, std::string directory) : fd_(fd), directory_(std::move(directory)) {}
  UnlinkedFile(const UnlinkedFile&) = delete;
  UnlinkedFile& operator=(const UnlinkedFile&) = delete;
  ~UnlinkedFile() override { ::close(fd_); }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error("cannot write to the spill file in " + directory_, errno);
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Result<void> read(uint64_t offset, std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error("cannot read the spill file in " + directory_, errno);
      if (n == 0) return Error{ErrorCode::kIo, "the spill file in " + directory_ + " is too short"};
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  void discard(uint64_t offset, uint64_t length) override {
    // A file system that cannot punch holes keeps the space until the end: nothing is lost.
    static_cast<void>(::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(offset), static_cast<off_t>(length)));
  }

 private:
  const int fd_;
  const std::string directory_;
};

Result<void> check_directory(const std::string& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) {
    return io_error("the folder for the spill file, " + directory, errno);
  }
  if (!S_ISDIR(info.st_mode)) return Error{ErrorCode::kUsage, directory + " is no folder"};
  if ((info.st_mode & S_IWOTH) != 0) {
    return Error{ErrorCode::kUsage, directory +
                                        " may be written to by everyone; choose a folder of your "
                                        "own for the spill file with --spill-dir"};
  }
  struct statfs system {};
  if (::statfs(directory.c_str(), &system) != 0) return io_error(directory, errno);
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
    return Error{ErrorCode::kUsage, directory +
                                        " lies in memory (tmpfs), where a spill file would save "
                                        "none; choose a folder on a disk with --spill-dir"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PrivateFile>> create_private_file(const std::string& directory) {
  QUIRE_TRY_VOID(check_directory(directory));
  int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    // A file system without unnamed files: named for the moment of one system call.
    std::string path = directory + "/.quire-spill-XXXXXX";
    fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(path.c_str());
  }
  if (fd < 0) return io_error("cannot create a spill file in " + directory, errno);
  return std::unique_ptr<PrivateFile>(std::make_unique<UnlinkedFile>(fd, directory));
}

Result<void> create_private_directories(const std::string& directory) {
  for (size_t slash = directory.find('/', 1);; slash = directory.find('/', slash + 1)) {
    const std::string part = directory.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return io_error("cannot create the folder " + part, errno);
    }
    if (slash == std::string::npos) return {};
  }
}

Result<int64_t> free_disk_bytes(const std::string& directory) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) {
    return io_error("the folder for the spill file, " + directory, errno);
  }
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace quire
