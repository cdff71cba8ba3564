#include "engine/prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "context/prompt_count.h"

namespace quire::engine {
namespace {

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
    case PromptSource::Kind::kInsertion:
      return fmt::format("inserted[{}]", source.message);
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

/// Adds `tokens` more, joined to the last run if they are the same.
void add_tokens(std::vector<PromptRun>& runs, const std::string& what, int64_t tokens) {
  if (tokens == 0) return;
  const int64_t begin = runs.empty() ? 0 : runs.back().end;
  if (!runs.empty() && runs.back().what == what) {
    runs.back().end += tokens;
  } else {
    runs.push_back({begin, begin + tokens, what});
  }
}

void add_runs(const Tokenizer::Encoding& encoding, const std::vector<context::PromptSpan>& spans,
              std::vector<PromptRun>& runs) {
  for (const size_t owner : context::span_owners(encoding.ranges, spans)) {
    add_tokens(runs, label(spans[owner].source), 1);
  }
}

/// In order of first appearance.
std::vector<PromptPart> parts_of(const std::vector<PromptRun>& runs) {
  std::vector<PromptPart> parts;
  for (const PromptRun& run : runs) {
    auto part = std::ranges::find(parts, run.what, &PromptPart::what);
    if (part == parts.end()) part = parts.insert(parts.end(), {run.what, 0});
    part->tokens += run.end - run.begin;
  }
  return parts;
}

}  // namespace

Result<Prompt> chat_prompt(const Tokenizer& tokenizer, const context::ChatTemplate& chat_template,
                           const context::ChatRequest& request) {
  QUIRE_TRY(context::RenderedPrompt rendered, chat_template.render(request));
  Prompt prompt = tokenized(tokenizer, std::move(rendered), {});
  prompt.request = request;
  return prompt;
}

Prompt tokenized(const Tokenizer& tokenizer, context::RenderedPrompt rendered,
                 const KnownBeginning& known) {
  QUIRE_CHECK(rendered.text.starts_with(known.text), "a prompt starts with what is known of it");
  Prompt prompt;
  prompt.tokens.assign(known.tokens.begin(), known.tokens.end());
  prompt.runs.assign(known.runs.begin(), known.runs.end());
  const size_t settled = known.text.size();
  const std::vector<context::PromptSpan> spans = spans_from(rendered.spans, settled);
  const Tokenizer::Encoding encoding = tokenizer.encode_with_ranges(
      std::string_view(rendered.text).substr(settled), context::inert_ranges(spans));
  add_runs(encoding, spans, prompt.runs);
  prompt.parts = parts_of(prompt.runs);
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
  prompt.tokens = tokenizer.encode(
      text, raw == RawText::kParse ? context::Special::kParse : context::Special::kPlain);
  const auto count = static_cast<int64_t>(prompt.tokens.size());
  const bool framed = add_special == AddSpecial::kAsModel;
  const auto prefix = framed ? tokenizer.prefix() : std::span<const TokenId>();
  const auto suffix = framed ? tokenizer.suffix() : std::span<const TokenId>();
  // A text that spells the prefix out has it already: no second BOS.
  const bool has_prefix = prompt.tokens.size() >= prefix.size() &&
                          std::equal(prefix.begin(), prefix.end(), prompt.tokens.begin());
  if (!has_prefix) {
    prompt.tokens.insert(prompt.tokens.begin(), prefix.begin(), prefix.end());
    add_tokens(prompt.runs, "special", static_cast<int64_t>(prefix.size()));
  }
  prompt.tokens.insert(prompt.tokens.end(), suffix.begin(), suffix.end());
  add_tokens(prompt.runs, "text", count);
  add_tokens(prompt.runs, "special", static_cast<int64_t>(suffix.size()));
  prompt.parts = parts_of(prompt.runs);
  return prompt;
}

std::string_view what_at(const Prompt& prompt, int64_t index) {
  const auto run = std::ranges::find_if(
      prompt.runs, [&](const PromptRun& r) { return r.begin <= index && index < r.end; });
  return run == prompt.runs.end() ? std::string_view() : run->what;
}

}  // namespace quire::engine
