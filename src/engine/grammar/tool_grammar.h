// tool_grammar.h: calls of tools, in the format that a model was trained on, as rules.
//
// Pure function; any thread.
#pragma once
#include <string_view>

#include "base/result.h"
#include "context/answer_format.h"
#include "context/tokenizer.h"
#include "engine/grammar/json_rules.h"
#include "engine/json_constraint.h"

namespace quire::engine::grammar {

/// How a model writes calls.
struct CallWriting {
  context::ToolCallFormat format = context::ToolCallFormat::kNone;
  std::string_view template_source;  // tells dialects of a format apart
  const context::Tokenizer* tokenizer = nullptr;
};

/// One call after the other of functions in `tools`, OpenAI's array of definitions.
Result<RuleId> tool_calls_rule(JsonRules& rules, const CallWriting& writing,
                               const formats::Json& tools, const ToolChoice& choice);

}  // namespace quire::engine::grammar
