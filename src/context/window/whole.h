// whole.h: reports of prompts that no planner took apart: they fit as they are, or are plain text.
//
// What fits is reported part by part under the names that a plan would use; text without messages
// is left as it is, cut at tokens, or refused with the numbers. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "context/tokenizer.h"
#include "context/window/fit.h"

namespace quire::context::window {

/// A part as whoever rendered the prompt counted it: "template", "system", "message[2] user",
/// "tools", "text".
struct CountedPart {
  std::string what;
  int64_t tokens = 0;
};

/// Of a prompt as it came, which may be too long: compare it with the report's budget. `request`:
/// what was rendered; null for plain text.
Report whole_report(const Limits& limits, const WindowPolicy& policy, const ChatRequest* request,
                    std::span<const CountedPart> parts);

struct FittedText {
  std::vector<TokenId> tokens;
  Report report;
};
/// Errors as cut_raw(), and kDoesNotFit with the numbers under reject.
Result<FittedText> fit_text(const Tokenizer& tokenizer, const Limits& limits,
                            const WindowPolicy& policy, std::vector<TokenId> tokens);

}  // namespace quire::context::window
