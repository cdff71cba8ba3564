// reports.h: what answers say of themselves, in JSON: the same for the command line and the server.
//
// `reuse`: what of a prompt came from the cache, and why the rest did not. `context`: the window's
// verdict. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "context/tokenizer.h"
#include "context/window/whole.h"
#include "engine/engine.h"
#include "engine/prompt.h"
#include "engine/window.h"
#include "formats/json.h"

namespace quire::engine {

/// {cached_tokens, miss: null or {reason, token_index, message, expected, got, cost_tokens, ...}}.
formats::Json reuse_json(const Reuse& reuse, const Prompt& prompt,
                         const context::Tokenizer& tokenizer);

std::vector<context::window::CountedPart> counted_parts(const Prompt& prompt);

/// It fits, since what does not is refused before.
formats::Json context_json(const Window& window, const Prompt& prompt,
                           std::optional<int64_t> max_tokens);

}  // namespace quire::engine
