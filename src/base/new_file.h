// new_file.h: a file that appears under its name when it is whole, or not at all.
//
// Bytes are appended to a file without a name (or, where the file system cannot do that, under a
// temporary one); commit() makes them durable and only then gives the file its name. Destroying it
// earlier, a full disk, or the death of the process leave nothing behind. An interface, so that
// tests can have disks that fill up. Use from one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace quire {

class NewFile {
 public:
  virtual ~NewFile() = default;

  /// Claims the disk space of `bytes` in all, so that a full disk is noticed before the work.
  virtual Result<void> reserve(uint64_t bytes) = 0;
  virtual Result<void> append(std::span<const std::byte> bytes) = 0;
  /// Nothing may be called after it.
  virtual Result<void> commit() = 0;
};

enum class IfExists : uint8_t {
  kRefuse,   // also if another program creates the file while it is being written
  kReplace,  // in one step: readers see the old file or the new one
};

/// A new file of the operating system. kUsage if `path` exists and must not be replaced, or is a
/// folder.
Result<std::unique_ptr<NewFile>> create_file(const std::string& path, IfExists if_exists);

/// Whether both paths lead to one and the same file of the operating system.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace quire
