// builtin_text.h: a text for checks and measurements that need no file.
//
// English prose with numbers, quotations and a few other scripts: about 700 tokens for most
// tokenizers. Fixed: results are comparable as long as it does not change.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "context/tokenizer.h"

namespace quire::cli {

std::string_view builtin_text();

/// Exactly `count` tokens of it, repeated as often as needed, after BOS if the model expects one.
std::vector<TokenId> builtin_tokens(const context::Tokenizer& tokenizer, int64_t count);

}  // namespace quire::cli
