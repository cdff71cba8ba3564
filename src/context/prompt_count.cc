#include "context/prompt_count.h"

#include <algorithm>

#include "base/check.h"

namespace quire::context {
namespace {

size_t common_bytes(const ByteRange& range, const PromptSpan& span) {
  const size_t begin = std::max(range.begin, span.begin);
  const size_t end = std::min(range.end, span.end);
  return begin < end ? end - begin : 0;
}

}  // namespace

std::vector<ByteRange> inert_ranges(std::span<const PromptSpan> spans) {
  std::vector<ByteRange> ranges;
  for (const PromptSpan& span : spans) {
    if (span.source.kind == PromptSource::Kind::kTemplate) continue;
    ranges.push_back({span.begin, span.end});
  }
  return ranges;
}

std::vector<size_t> span_owners(std::span<const ByteRange> tokens,
                                std::span<const PromptSpan> spans) {
  std::vector<size_t> owners;
  owners.reserve(tokens.size());
  size_t first = 0;  // the span that holds the token's first byte
  for (const ByteRange& token : tokens) {
    QUIRE_CHECK(!spans.empty(), "a prompt with tokens has spans");
    while (first + 1 < spans.size() && spans[first].end <= token.begin) ++first;
    size_t owner = first;
    for (size_t i = first + 1; i < spans.size() && spans[i].begin < token.end; ++i) {
      if (common_bytes(token, spans[i]) > common_bytes(token, spans[owner])) owner = i;
    }
    owners.push_back(owner);
  }
  return owners;
}

Result<CountedPrompt> count_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                   const ChatRequest& request) {
  CountedPrompt counted;
  QUIRE_TRY(counted.rendered, chat_template.render(request));
  Tokenizer::Encoding encoding =
      tokenizer.encode_with_ranges(counted.rendered.text, inert_ranges(counted.rendered.spans));
  counted.owners = span_owners(encoding.ranges, counted.rendered.spans);
  counted.tokens = std::move(encoding.ids);
  counted.ranges = std::move(encoding.ranges);
  return counted;
}

Result<int64_t> prompt_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                              const ChatRequest& request) {
  QUIRE_TRY(const RenderedPrompt rendered, chat_template.render(request));
  const auto ids = tokenizer.encode(rendered.text, inert_ranges(rendered.spans));
  return static_cast<int64_t>(ids.size());
}

}  // namespace quire::context
