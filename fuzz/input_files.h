// input_files.h: a file system in which every path that was named is the fuzzer's input.
//
// Mappings are the input itself, not copies: libFuzzer hands out heap blocks of exact size, so
// AddressSanitizer sees a read beyond them, and what the meter counts is the parser's alone.
// Use from one thread.
#pragma once
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace quire::fuzz {

class InputFiles final : public FileSystem {
 public:
  InputFiles(std::set<std::string> paths, std::span<const std::byte> input)
      : paths_(std::move(paths)), input_(input) {}

  /// Bytes of all files together.
  uint64_t total_bytes() const { return paths_.size() * input_.size(); }

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    if (!is_file(path)) return Error{ErrorCode::kNotFound, "there is no " + path};
    return std::unique_ptr<MappedFile>(std::make_unique<Input>(input_));
  }
  Result<std::string> read(const std::string& path, uint64_t) override {
    return Error{ErrorCode::kNotFound, "there is no " + path};
  }
  Result<void> write_atomically(const std::string& path, std::string_view) override {
    return Error{ErrorCode::kIo, "nothing is written to " + path};
  }
  bool is_file(const std::string& path) override { return paths_.contains(path); }
  bool is_directory(const std::string&) override { return false; }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>(paths_.begin(), paths_.end());
  }

 private:
  class Input final : public MappedFile {
   public:
    explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::span<const std::byte> bytes() const override { return bytes_; }
    void release(uint64_t, uint64_t) override {}

   private:
    std::span<const std::byte> bytes_;
  };

  std::set<std::string> paths_;
  std::span<const std::byte> input_;
};

}  // namespace quire::fuzz
