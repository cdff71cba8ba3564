// pieces.h: tokens as people and JSON can show them.
//
// Pure functions.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "context/tokenizer.h"
#include "formats/json.h"

namespace quire::cli {

/// A token's bytes as text; those of an incomplete character as <0xE7>.
std::string shown_piece(std::string_view bytes);

/// The same with line breaks and other control characters escaped, for one line.
std::string one_line(std::string_view bytes);

formats::Json ids_json(std::span<const TokenId> ids);
formats::Json pieces_json(const context::Tokenizer& tokenizer, std::span<const TokenId> ids);

}  // namespace quire::cli
