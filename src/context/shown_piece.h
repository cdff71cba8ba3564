// shown_piece.h: a token's bytes as text that can be printed.
//
// A pure function.
#pragma once
#include <string>
#include <string_view>

namespace quire::context {

/// The bytes as text; those of an incomplete character as <0xE7>.
std::string shown_piece(std::string_view bytes);

}  // namespace quire::context
