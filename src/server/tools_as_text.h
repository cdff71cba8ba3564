// tools_as_text.h: tools for models whose chat template knows none.
//
// Definitions, calls and results become text of ordinary messages, in the form that Hermes models
// were trained on (NousResearch, Hermes-Function-Calling) and most others can follow:
// <tools>, <tool_call>, <tool_response>. Pure.
#pragma once
#include "formats/json.h"

namespace quire::server {

/// `messages` with `tools` described in a system message, and with earlier calls and their results
/// as text. `tools` may be null: then only the latter.
formats::Json with_tools_as_text(const formats::Json& messages, const formats::Json& tools);

}  // namespace quire::server
