// jinja_fuzz.cc: any text as a chat template ends in an error or in text whose every byte has an
// origin. Parsing and execution share the harness: what parses is rendered with a fixed
// conversation.
#include <cstdint>

#include "jinja_conversation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::check_jinja_render({reinterpret_cast<const char*>(data), size});
  return 0;
}
