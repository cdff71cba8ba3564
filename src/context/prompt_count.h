// prompt_count.h: a rendered prompt's tokens, and whose each of them is.
//
// The whole text is tokenized once; a token belongs to the span that owns most of its bytes, so
// that what parts count sums to the prompt exactly. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "context/chat_template.h"
#include "context/tokenizer.h"

namespace quire::context {

/// Bytes that came from outside: special tokens are inert there.
std::vector<ByteRange> inert_ranges(std::span<const PromptSpan> spans);

/// For each token's bytes the index of the span that owns most of them, the earlier of two equal
/// ones. Both ascend; requires a span.
std::vector<size_t> span_owners(std::span<const ByteRange> tokens,
                                std::span<const PromptSpan> spans);

struct CountedPrompt {
  RenderedPrompt rendered;
  std::vector<TokenId> tokens;
  std::vector<ByteRange> ranges;  // bytes of rendered.text, one a token
  std::vector<size_t> owners;     // index into rendered.spans, one a token

  int64_t count() const { return static_cast<int64_t>(tokens.size()); }
  /// The source of a token. Requires a valid index.
  const PromptSource& source(size_t token) const { return rendered.spans[owners[token]].source; }
};

/// Renders and tokenizes. Fails with the template's own message when it refuses the conversation.
Result<CountedPrompt> count_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                   const ChatRequest& request);

/// Only how many tokens there are.
Result<int64_t> prompt_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                              const ChatRequest& request);

}  // namespace quire::context
