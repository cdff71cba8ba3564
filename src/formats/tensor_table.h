// tensor_table.h: the tensors of one model, whichever files they are spread over.
//
// Owns the files' mappings, and so keeps every TensorInfo::bytes and every metadata view valid for
// its own lifetime; moving it moves nothing in memory. Names are unique.
// Thread rule: built by one thread; const functions, release() included, may then run on any.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "formats/tensor_info.h"

namespace quire::formats {

class TensorTable {
 public:
  /// Adds a file and the tensors in it. Sets their TensorInfo::file.
  void add_file(std::string path, std::unique_ptr<MappedFile> mapping,
                std::vector<TensorInfo> tensors);

  /// Makes find() work; call once, after the last add_file(). Refuses a name that occurs twice.
  Result<void> build_index();

  /// In the order of the files.
  std::span<const TensorInfo> tensors() const { return tensors_; }

  /// The tensor of that name, or nullptr. Takes O(log n).
  const TensorInfo* find(std::string_view name) const;

  /// Lets the system drop the tensor's mapped pages from memory; reading them again stays possible.
  void release(const TensorInfo& tensor) const;

  /// Sizes of all files, not only of their tensors.
  uint64_t total_bytes() const;

  const std::vector<std::string>& files() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<MappedFile>> mappings_;  // beside paths_
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_, ascending by name
};

}  // namespace quire::formats
