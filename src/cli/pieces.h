// pieces.h: tokens as people and JSON can show them.
//
// Pure functions.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "context/shown_piece.h"
#include "context/tokenizer.h"
#include "formats/json.h"

namespace quire::cli {

using context::shown_piece;

/// The same with line breaks and other control characters escaped, for one line.
std::string one_line(std::string_view bytes);

formats::Json ids_json(std::span<const TokenId> ids);
formats::Json pieces_json(const context::Tokenizer& tokenizer, std::span<const TokenId> ids);

}  // namespace quire::cli
