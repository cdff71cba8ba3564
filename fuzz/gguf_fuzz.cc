// gguf_fuzz.cc: any bytes as a GGUF file end in an error or in a file that can be read whole, at a
// bounded cost.
#include <cstdint>
#include <span>

#include "budget.h"
#include "formats/gguf.h"
#include "formats/walk_everything.h"
#include "input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::formats;
  // Named as a set of two, so that a file with split keys opens itself again as the second part.
  quire::fuzz::InputFiles files({"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"},
                                std::as_bytes(std::span(data, size)));
  for (const OpenMode mode : {OpenMode::kWeights, OpenMode::kMetadataOnly}) {
    const quire::fuzz::Budget budget;
    const auto file = GgufFile::open(files, "m-00001-of-00002.gguf", mode);
    budget.check(files.total_bytes());
    if (file.ok()) walk_everything(file->metadata(), file->tensors());
  }
  return 0;
}
