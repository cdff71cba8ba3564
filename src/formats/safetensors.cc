#include "formats/safetensors.h"

#include <memory>
#include <utility>

#include "formats/safetensors_parser.h"

namespace quire::formats {

Result<TensorTable> open_safetensors(FileSystem& files, const std::vector<std::string>& paths) {
  TensorTable table;
  for (const std::string& path : paths) {
    QUIRE_TRY(std::unique_ptr<MappedFile> mapping, files.map(path));
    QUIRE_TRY(std::vector<TensorInfo> tensors, parse_safetensors(mapping->bytes(), path));
    table.add_file(path, std::move(mapping), std::move(tensors));
  }
  QUIRE_TRY_VOID(table.build_index());
  return table;
}

}  // namespace quire::formats
