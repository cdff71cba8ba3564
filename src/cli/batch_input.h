// batch_input.h: the lines of `run --batch FILE.jsonl`.
//
// Each line is a prompt: a JSON string; an array of messages; or an object with "prompt" (a text)
// or "messages" (and "tools", "documents", "chat_template_kwargs", "add_generation_prompt" beside
// it), "id" (any value, given back) and "max_tokens". Blank lines are skipped. All lines are
// checked before the first is answered. Pure but for reading.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/prompt_input.h"
#include "formats/json.h"

namespace quire::cli {

struct BatchLine {
  GivenPrompt prompt;
  formats::Json id;  // null: none was given
  std::optional<int64_t> max_tokens;
};

/// kUsage names the first bad line of `file` and what is wrong with it.
Result<std::vector<BatchLine>> parse_batch(std::string_view text, const std::string& file);

}  // namespace quire::cli
