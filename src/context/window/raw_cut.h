// raw_cut.h: a text without messages cut to what fits, at tokens.
//
// For completions only: a cut at tokens knows nothing of turns and would tear messages. Pure.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "context/tokenizer.h"
#include "context/window/fit.h"

namespace quire::context::window {

/// At most report.budget.usable of `tokens` under truncate_left, truncate_right or head_tail; what
/// the tokenizer puts before every text stays. Fills the report's status, parts and risk. kUsage
/// for policies that need messages, kDoesNotFit if there is no room at all.
Result<std::vector<TokenId>> cut_raw(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                                     Policy policy, Report& report);

}  // namespace quire::context::window
