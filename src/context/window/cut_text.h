// cut_text.h: a text shortened to a number of tokens, with a mark where it was cut.
//
// Cuts fall between characters. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "context/tokenizer.h"
#include "context/window/part.h"

namespace quire::context::window {

/// The text, if it has at most `keep` tokens; else its head, its tail or both, `keep` tokens in
/// all, and "[... 512 tokens cut here, handle c8 ...]" between or beside them. Requires a way to
/// cut.
std::string cut_text(const Tokenizer& tokenizer, std::string_view text, int64_t keep,
                     Truncate truncate, std::string_view handle);

/// The longest beginning of `text` that has at most `most` tokens by itself.
std::string_view first_tokens(const Tokenizer& tokenizer, std::string_view text, int64_t most);

int64_t count_text(const Tokenizer& tokenizer, std::string_view text);

}  // namespace quire::context::window
