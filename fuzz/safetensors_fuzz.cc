// safetensors_fuzz.cc: any bytes as a safetensors file end in an error or in a file that can be
// read whole. The header's text is read a second time by Json, which must accept whatever
// JsonCursor did.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "formats/json.h"
#include "formats/memory_file_system.h"
#include "formats/safetensors.h"
#include "formats/walk_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::formats;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  MemoryFileSystem files;
  files.put("m.safetensors", content);
  const auto table = open_safetensors(files, {"m.safetensors"});
  if (!table.ok()) return 0;
  walk_tensors(*table);

  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data, sizeof(header_bytes));
  const auto header = Json::parse(content.substr(sizeof(header_bytes), header_bytes), "the header");
  QUIRE_CHECK(header.ok(), "what was accepted is JSON");
  const size_t metadata = header->find("__metadata__") != nullptr ? 1 : 0;
  QUIRE_CHECK_EQ(header->as_object()->size(), table->tensors().size() + metadata);
  return 0;
}
