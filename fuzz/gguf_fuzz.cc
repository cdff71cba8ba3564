// gguf_fuzz.cc: any bytes as a GGUF file end in an error or in a file that can be read whole.
#include <cstdint>
#include <string_view>

#include "formats/gguf.h"
#include "formats/memory_file_system.h"
#include "formats/walk_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::formats;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  MemoryFileSystem files;
  // Named as a set of two, so that a file with split keys opens itself again as the second part.
  for (const char* path : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    files.put(path, content);
  }
  for (const OpenMode mode : {OpenMode::kWeights, OpenMode::kMetadataOnly}) {
    const auto file = GgufFile::open(files, "m-00001-of-00002.gguf", mode);
    if (file.ok()) walk_everything(file->metadata(), file->tensors());
  }
  return 0;
}
