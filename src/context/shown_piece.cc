#include "context/shown_piece.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace quire::context {

std::string shown_piece(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Char c = utf8_next(bytes);
    const auto length = static_cast<size_t>(c.bytes);
    if (c.valid) {
      out += bytes.substr(0, length);
    } else {
      out += fmt::format("<0x{:02X}>", c.code_point);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

}  // namespace quire::context
