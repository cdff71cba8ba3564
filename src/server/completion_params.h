// completion_params.h: what /v1/completions is asked: prompts as text or as tokens, one or many.
//
// Pure.
#pragma once
#include <optional>
#include <vector>

#include "context/tokenizer.h"
#include "engine/prompt.h"
#include "server/fields.h"

namespace quire::server {

inline constexpr size_t kMostPrompts = 32;

/// `prompt`: a string, tokens, or an array of either. Text is tokenized with what the model expects
/// before it; tokens are taken as they are.
std::vector<engine::Prompt> read_prompts(Fields& fields, const context::Tokenizer& tokenizer);

/// `logprobs` of this route: a number, or true.
std::optional<int32_t> read_completion_logprobs(Fields& fields);

}  // namespace quire::server
