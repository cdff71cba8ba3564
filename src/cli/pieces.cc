#include "cli/pieces.h"

#include <fmt/format.h>

namespace quire::cli {

using formats::Json;

std::string one_line(std::string_view bytes) {
  std::string out;
  for (const char c : shown_piece(bytes)) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

Json ids_json(std::span<const TokenId> ids) {
  Json array(Json::Array{});
  for (const TokenId id : ids) array.push_back(int64_t{id.value});
  return array;
}

Json pieces_json(const context::Tokenizer& tokenizer, std::span<const TokenId> ids) {
  Json array(Json::Array{});
  for (const TokenId id : ids) array.push_back(shown_piece(tokenizer.piece(id)));
  return array;
}

}  // namespace quire::cli
