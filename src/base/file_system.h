// file_system.h: the seam through which Quire reads and writes files.
//
// Tests replace it to inject faults; production code takes a FileSystem& and never calls the system
// itself. Errors name the path. Thread rule: a FileSystem may be used from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

/// A whole file mapped read-only. The bytes stay valid until it is destroyed; if another process
/// truncates the file meanwhile, reading past its new end is the system's SIGBUS.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  /// Says that this range is not needed any more, so that the system may drop it from memory.
  virtual void release(uint64_t offset, uint64_t length) = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  /// The whole content; an error if it is longer than max_bytes.
  virtual Result<std::string> read(const std::string& path, uint64_t max_bytes) = 0;
  /// Replaces or creates `path` in one step: either the old or the whole new content is there.
  virtual Result<void> write_atomically(const std::string& path, std::string_view content) = 0;
  virtual bool is_file(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  /// Names (not paths) of the entries, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
};

/// The operating system's files.
FileSystem& real_file_system();

}  // namespace quire
