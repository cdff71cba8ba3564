// safetensors_fuzz.cc: any bytes as a safetensors file end in an error or in a file that can be
// read whole, at a bounded cost. The header's text is read a second time by Json, which must accept
// whatever JsonCursor did.
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/check.h"
#include "budget.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/walk_everything.h"
#include "input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::formats;
  quire::fuzz::InputFiles files({"m.safetensors"}, std::as_bytes(std::span(data, size)));
  const quire::fuzz::Budget budget;
  const auto table = open_safetensors(files, {"m.safetensors"});
  budget.check(files.total_bytes());
  if (!table.ok()) return 0;
  walk_tensors(*table);

  const std::string_view content(reinterpret_cast<const char*>(data), size);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data, sizeof(header_bytes));
  const auto header = Json::parse(content.substr(sizeof(header_bytes), header_bytes), "the header");
  QUIRE_CHECK(header.ok(), "what was accepted is JSON");
  const size_t metadata = header->find("__metadata__") != nullptr ? 1 : 0;
  QUIRE_CHECK_EQ(header->as_object()->size(), table->tensors().size() + metadata);
  return 0;
}
