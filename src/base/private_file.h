// private_file.h: a file of this process alone, without a name: memory that lives on a disk.
//
// It is unlinked before its first byte is written, so nothing remains however the process ends. It
// grows where it is written and reads as zero elsewhere. Thread rule: calls on ranges that do not
// overlap may come from any threads at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace quire {

class PrivateFile {
 public:
  virtual ~PrivateFile() = default;
  /// kIo says why the system refused (a full disk, say); parts may be written then.
  virtual Result<void> write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Fills `bytes`; kIo if the system refuses or the file ends before.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Gives the range's space back where the file system can; it reads as anything afterwards.
  virtual void discard(uint64_t offset, uint64_t length) = 0;
};

/// A private file in `directory`, which must exist. kUsage for a folder in memory (tmpfs), which
/// would save none, and for one that others may write to.
Result<std::unique_ptr<PrivateFile>> create_private_file(const std::string& directory);

/// Creates `directory` and what lacks above it, for this user only (mode 0700).
Result<void> create_private_directories(const std::string& directory);

/// Bytes that the file system of `directory` has free for this user.
Result<int64_t> free_disk_bytes(const std::string& directory);

}  // namespace quire
