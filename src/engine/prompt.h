// prompt.h: what the user gave becomes the tokens that the model sees, part by part.
//
// Text from messages is inert: a control token spelled out in it stays text. The whole prompt is
// tokenized as one text. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/chat_template.h"
#include "context/tokenizer.h"

namespace quire::engine {

/// Where some tokens of a prompt came from: "template", "system", "message[2] user", "tools",
/// "text".
struct PromptPart {
  std::string what;
  int64_t tokens = 0;
};

/// The same for one run of neighbouring tokens.
struct PromptRun {
  int64_t begin = 0;  // index of its first token
  int64_t end = 0;
  std::string what;
};

struct Prompt {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<PromptRun> runs;     // in order, without gaps, from 0 to tokens.size()
  std::vector<PromptPart> parts;   // the runs by what they are: their tokens sum to tokens.size()
  std::vector<std::string> notes;  // what was adapted or depends on the clock, one sentence each
  std::optional<context::ChatRequest> request;  // what it was rendered from; absent for plain text
};

enum class RawText : uint8_t {
  kParse,  // control tokens spelled out in the text are parsed
  kPlain,  // they are text
};
enum class AddSpecial : uint8_t {
  kAsModel,  // BOS and EOS as the model expects them
  kNone,
};

/// What the token at `index` is part of; "" beyond the prompt.
std::string_view what_at(const Prompt& prompt, int64_t index);

/// A beginning of a rendered prompt whose tokens are settled already.
struct KnownBeginning {
  std::string_view text;
  std::span<const TokenId> tokens;
  std::span<const PromptRun> runs;
};

/// The template's text as it stands: no BOS beyond what the template prints, as in Hugging Face.
Result<Prompt> chat_prompt(const context::Tokenizer& tokenizer,
                           const context::ChatTemplate& chat_template,
                           const context::ChatRequest& request);
/// A rendered text, which starts with `known.text`: those bytes are `known.tokens`, and only the
/// rest is tokenized.
Prompt tokenized(const context::Tokenizer& tokenizer, context::RenderedPrompt rendered,
                 const KnownBeginning& known);

/// A text without a template.
Prompt raw_prompt(const context::Tokenizer& tokenizer, std::string_view text, RawText raw,
                  AddSpecial add_special);

}  // namespace quire::engine
