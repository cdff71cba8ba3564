// scratch_folder.h: a folder that goes with the test, on the disk where the tests were built.
//
// Use from one thread.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace quire::context {

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent = ".") {
    std::string name = parent + "/quire_test_XXXXXX";
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
  }
  /// A folder in memory, where there is one: for tests of what a process's death leaves behind, to
  /// which a disk adds only time.
  static std::string parent_in_memory() {
    return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : ".";
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace quire::context
