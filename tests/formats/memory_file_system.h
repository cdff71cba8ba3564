// memory_file_system.h: files that exist only in a test, and fail as the test wants.
//
// Every mapping is an own heap block of exactly the file's size, so that AddressSanitizer sees a
// read one byte beyond it. Use from one thread.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_system.h"

namespace quire::formats {

class MemoryFileSystem final : public FileSystem {
 public:
  struct Release {
    uint64_t offset;
    uint64_t length;
    friend bool operator==(const Release&, const Release&) = default;
  };

  void put(const std::string& path, std::string_view content) {
    contents_[path] = std::string(content);
  }
  void remove(const std::string& path) { contents_.erase(path); }
  /// From now on reading or mapping `path` fails as a bad disk would.
  void break_reads_of(const std::string& path) { broken_.insert(path); }
  /// What was released of any file, in order.
  const std::vector<Release>& releases() const { return releases_; }

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    QUIRE_TRY(const std::string_view content, look_up(path));
    return std::unique_ptr<MappedFile>(std::make_unique<Mapping>(content, releases_));
  }

  Result<std::string> read(const std::string& path, uint64_t max_bytes) override {
    QUIRE_TRY(const std::string_view content, look_up(path));
    if (content.size() > max_bytes) return Error{ErrorCode::kBadFile, path + " is too long"};
    return std::string(content);
  }

  Result<void> write_atomically(const std::string& path, std::string_view content) override {
    put(path, content);
    return {};
  }

  bool is_file(const std::string& path) override { return contents_.contains(path); }

  bool is_directory(const std::string& path) override {
    const auto inside = contents_.lower_bound(path + "/");
    return inside != contents_.end() && inside->first.starts_with(path + "/");
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    if (broken_.contains(directory)) return Error{ErrorCode::kIo, "cannot list " + directory};
    std::set<std::string> names;
    for (const auto& [path, content] : contents_) {
      if (!path.starts_with(directory + "/")) continue;
      const std::string rest = path.substr(directory.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

 private:
  class Mapping final : public MappedFile {
   public:
    Mapping(std::string_view content, std::vector<Release>& releases)
        : size_(content.size()), block_(new std::byte[content.size()]), releases_(releases) {
      if (size_ > 0) std::memcpy(block_.get(), content.data(), size_);
    }
    std::span<const std::byte> bytes() const override { return {block_.get(), size_}; }
    void release(uint64_t offset, uint64_t length) override {
      releases_.push_back({offset, length});
    }

   private:
    size_t size_;
    std::unique_ptr<std::byte[]> block_;
    std::vector<Release>& releases_;
  };

  Result<std::string_view> look_up(const std::string& path) const {
    if (broken_.contains(path)) {
      return Error{ErrorCode::kIo, "cannot read " + path + ": Input/output error"};
    }
    const auto found = contents_.find(path);
    if (found == contents_.end()) {
      return Error{ErrorCode::kNotFound, "cannot open " + path + ": No such file or directory"};
    }
    return std::string_view(found->second);
  }

  std::map<std::string, std::string> contents_;
  std::set<std::string> broken_;
  std::vector<Release> releases_;
};

}  // namespace quire::formats
