// prompt_input.h: -p, -f, stdin and --messages become one prompt.
//
// Bytes are taken as they are: BOM, NUL, CRLF and an empty file survive. Pure but for the files and
// stdin that it reads.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/environment.h"
#include "cli/options.h"
#include "cli/output.h"
#include "context/chat_template.h"
#include "context/tokenizer.h"
#include "engine/prompt.h"

namespace quire::cli {

/// Larger prompts are a mistake: no window holds them.
inline constexpr uint64_t kMaxPromptBytes = uint64_t{256} << 20;

/// Pieces one after the other, separated by one blank line.
std::string join_by_blank_line(std::span<const std::string> pieces);

/// What the pieces say, or stdin if there are none. `prefix` stands before it.
Result<std::string> read_prompt_text(const Environment& env, const PromptOptions& options,
                                     Output& output);

/// The conversation to render: --messages, or --system and the text as one user message.
Result<context::ChatRequest> read_chat_request(const Environment& env, const PromptOptions& options,
                                               Output& output);

/// How a command treats text when no option says it.
enum class DefaultRendering : uint8_t {
  kTemplate,  // the template if the model has one, else the text is continued
  kRaw,
};

/// What turns text into tokens.
struct PromptMaker {
  const context::Tokenizer& tokenizer;
  const context::ChatTemplate* chat_template;  // nullptr: none that can be used
  std::string_view template_problem;           // why, if the model holds one
};

/// The prompt's tokens. Says on stderr when a model without a template continues the text.
Result<engine::Prompt> read_prompt(const Environment& env, const PromptMaker& maker,
                                   const PromptOptions& options, DefaultRendering rendering,
                                   Output& output);

/// A prompt that is at hand already.
struct GivenPrompt {
  std::string name;       // for errors: "questions.jsonl, line 3"
  formats::Json content;  // a text, or what --messages reads
};

/// Its tokens, with `prefix` at the head of the text or of the first user message. Only the options
/// that say how prompts are rendered are looked at.
Result<engine::Prompt> make_prompt(const PromptMaker& maker, const PromptOptions& options,
                                   const std::string& prefix, const GivenPrompt& given);

/// Adds the variables of --template-kwargs: JSON where the value is JSON, else text.
void add_template_kwargs(const PromptOptions& options, formats::Json& kwargs);

/// The error of a command that needs a template.
Error needs_template(std::string_view what, std::string_view template_problem);

}  // namespace quire::cli
