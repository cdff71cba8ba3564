// end_tokens.h: the control tokens that end an answer, by the names that models give them.
//
// Files often name only one EOS although the model ends its turns with another token. Pure
// function.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "context/tokenizer/added_tokens.h"

namespace quire::context {

/// Whether a token of this name ends an answer in every model that has it.
bool is_end_token_name(std::string_view name);

/// Ids of the added tokens that end an answer.
std::vector<int32_t> end_tokens(std::span<const AddedToken> added);

}  // namespace quire::context
