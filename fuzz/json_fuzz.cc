// json_fuzz.cc: any text as JSON ends in an error or in a value that survives writing and reading.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "formats/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::formats::Json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = Json::parse(text, "the input");
  if (!json.ok()) return 0;
  for (const int indent : {-1, 2}) {
    const auto again = Json::parse(json->dump(indent), "what was written");
    QUIRE_CHECK(again.ok(), "what is written is JSON");
    QUIRE_CHECK(*again == *json, "what is written reads back the same");
  }
  return 0;
}
