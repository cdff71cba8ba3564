#include "formats/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "formats/printable.h"

namespace quire::formats {

void TensorTable::add_file(std::string path, std::unique_ptr<MappedFile> mapping,
                           std::vector<TensorInfo> tensors) {
  const auto file = static_cast<int32_t>(paths_.size());
  for (TensorInfo& tensor : tensors) tensor.file = file;
  paths_.push_back(std::move(path));
  mappings_.push_back(std::move(mapping));
  if (tensors_.empty()) {
    tensors_ = std::move(tensors);
  } else {
    std::ranges::move(tensors, std::back_inserter(tensors_));
  }
}

Result<void> TensorTable::build_index() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  const auto name_of = [&](uint32_t index) -> const std::string& { return tensors_[index].name; };
  std::ranges::sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice == by_name_.end()) return {};
  const TensorInfo& first = tensors_[*twice];
  const TensorInfo& second = tensors_[*std::next(twice)];
  const auto path_of = [&](const TensorInfo& tensor) {
    return paths_[static_cast<size_t>(tensor.file)];
  };
  const std::string where = first.file == second.file
                                ? fmt::format("twice in {}", path_of(first))
                                : fmt::format("in both {} and {}", path_of(first), path_of(second));
  return Error{ErrorCode::kBadFile,
               fmt::format("tensor {} stands {}, so which one is meant is unknown",
                           printable(first.name), where)};
}

const TensorInfo* TensorTable::find(std::string_view name) const {
  QUIRE_CHECK_EQ(by_name_.size(), tensors_.size());  // build_index() was called
  const auto name_of = [&](uint32_t index) -> std::string_view { return tensors_[index].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || name_of(*found) != name) return nullptr;
  return &tensors_[*found];
}

void TensorTable::release(const TensorInfo& tensor) const {
  if (tensor.bytes.empty()) return;
  const auto file = static_cast<size_t>(tensor.file);
  QUIRE_CHECK_LT(file, mappings_.size());
  MappedFile& mapping = *mappings_[file];
  const auto offset = static_cast<uint64_t>(tensor.bytes.data() - mapping.bytes().data());
  QUIRE_CHECK(offset <= mapping.bytes().size(), "the tensor is of another table");
  mapping.release(offset, tensor.bytes.size());
}

uint64_t TensorTable::total_bytes() const {
  uint64_t total = 0;
  for (const auto& mapping : mappings_) total += mapping->bytes().size();
  return total;
}

}  // namespace quire::formats
