#include "engine/prompt.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::engine {
namespace {

using context::ByteRange;
using context::PromptSource;
using context::Tokenizer;

std::string label(const PromptSource& source) {
  switch (source.kind) {
    case PromptSource::Kind::kTemplate:
      return "template";
    case PromptSource::Kind::kTools:
      return "tools";
    case PromptSource::Kind::kDocuments:
      return "documents";
    case PromptSource::Kind::kKwargs:
      return "template kwargs";
    case PromptSource::Kind::kMessage:
      break;
  }
  if (source.role == "system" && source.message == 0) return "system";
  return fmt::format("message[{}] {}", source.message, source.role);
}

/// The parts of a prompt from byte `begin` on, as positions after it.
std::vector<context::PromptSpan> spans_from(const std::vector<context::PromptSpan>& spans,
                                            size_t begin) {
  std::vector<context::PromptSpan> rest;
  for (const context::PromptSpan& span : spans) {
    if (span.end <= begin) continue;
    rest.push_back({std::max(span.begin, begin) - begin, span.end - begin, span.source});
  }
  return rest;
}

/// Special tokens are inert in text that came from outside.
std::vector<ByteRange> inert_ranges(const std::vector<context::PromptSpan>& spans) {
  std::vector<ByteRange> ranges;
  for (const context::PromptSpan& span : spans) {
    if (span.source.kind == PromptSource::Kind::kTemplate) continue;
    ranges.push_back({span.begin, span.end});
  }
  return ranges;
}

/// A token counts for the span that holds its first byte. Parts are in order of first appearance.
void count_parts(const Tokenizer::Encoding& encoding, const std::vector<context::PromptSpan>& spans,
                 std::vector<PromptPart>& parts) {
  size_t at = 0;
  for (const ByteRange& range : encoding.ranges) {
    while (at + 1 < spans.size() && spans[at].end <= range.begin) ++at;
    const std::string what = spans.empty() ? "template" : label(spans[at].source);
    auto part = std::ranges::find(parts, what, &PromptPart::what);
    if (part == parts.end()) part = parts.insert(parts.end(), {what, 0});
    ++part->tokens;
  }
}

}  // namespace

Result<Prompt> chat_prompt(const Tokenizer& tokenizer, const context::ChatTemplate& chat_template,
                           const context::ChatRequest& request, const KnownBeginning& known) {
  QUIRE_TRY(context::RenderedPrompt rendered, chat_template.render(request));
  Prompt prompt;
  size_t settled = 0;
  if (!known.text.empty() && rendered.text.starts_with(known.text)) {
    settled = known.text.size();
    prompt.tokens.assign(known.tokens.begin(), known.tokens.end());
    prompt.parts.push_back({"earlier turns", static_cast<int64_t>(known.tokens.size())});
  }
  const std::vector<context::PromptSpan> spans = spans_from(rendered.spans, settled);
  const Tokenizer::Encoding encoding = tokenizer.encode_with_ranges(
      std::string_view(rendered.text).substr(settled), inert_ranges(spans));
  count_parts(encoding, spans, prompt.parts);
  prompt.tokens.insert(prompt.tokens.end(), encoding.ids.begin(), encoding.ids.end());
  prompt.text = std::move(rendered.text);
  prompt.notes = std::move(rendered.adaptations);
  if (rendered.used_clock) {
    prompt.notes.push_back(
        "the chat template prints the date, so this prompt changes from day to day");
  }
  return prompt;
}

Prompt raw_prompt(const Tokenizer& tokenizer, std::string_view text, RawText raw,
                  AddSpecial add_special) {
  Prompt prompt;
  prompt.text = text;
  const auto special = raw == RawText::kParse ? context::Special::kParse : context::Special::kPlain;
  prompt.tokens = tokenizer.encode(text, special);
  prompt.parts.push_back({"text", static_cast<int64_t>(prompt.tokens.size())});
  if (add_special == AddSpecial::kNone) return prompt;
  const std::span<const TokenId> prefix = tokenizer.prefix();
  const std::span<const TokenId> suffix = tokenizer.suffix();
  // A text that spells the prefix out has it already: no second BOS.
  const bool has_prefix = prompt.tokens.size() >= prefix.size() &&
                          std::equal(prefix.begin(), prefix.end(), prompt.tokens.begin());
  if (!has_prefix) prompt.tokens.insert(prompt.tokens.begin(), prefix.begin(), prefix.end());
  prompt.tokens.insert(prompt.tokens.end(), suffix.begin(), suffix.end());
  const auto added = static_cast<int64_t>((has_prefix ? 0 : prefix.size()) + suffix.size());
  if (added > 0) prompt.parts.insert(prompt.parts.begin(), {"special", added});
  return prompt;
}

}  // namespace quire::engine
