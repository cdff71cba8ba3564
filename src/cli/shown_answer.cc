#include "cli/shown_answer.h"

#include <algorithm>

#include "context/answer_scanner.h"

namespace quire::cli {
namespace {

using context::AnswerEvent;

/// In a chat calls of tools are text like any other.
context::AnswerFormat format_with(const ShownAnswer::Tags& tags) {
  return {.reasoning_tags = tags, .tool_calls = context::ToolCallFormat::kNone};
}

}  // namespace

ShownAnswer::ShownAnswer(const Tags& tags, std::string_view prompt, const Style& style,
                         Reasoning reasoning)
    : tags_(tags),
      style_(style),
      hides_(reasoning == Reasoning::kHidden),
      parser_(format_with(tags), prompt) {
  const bool opened = tags_ && !tags_->first.empty() &&
                      context::without_trailing_blanks(prompt).ends_with(
                          context::without_trailing_blanks(tags_->first));
  reasoning_ = opened;
}

std::string ShownAnswer::finish() {
  std::string out = shown(parser_.finish());
  if (reasoning_ && began_ && !hides_) out += style_.reset;
  return out;
}

std::string ShownAnswer::shown(const context::AnswerEvents& events) {
  std::string out;
  for (const AnswerEvent& event : events) {
    const bool thinks = event.kind == AnswerEvent::Kind::kReasoning;
    if (hides_ && thinks) continue;
    std::string_view text = event.text;
    if (hides_ && !began_) {
      text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
      if (text.empty()) continue;
    }
    if (!hides_ && thinks != reasoning_ && (thinks || began_)) out += turn(thinks);
    if (thinks && !began_) out += style_.dim;
    out += text;
    began_ = true;
    reasoning_ = thinks;
  }
  return out;
}

std::string ShownAnswer::turn(bool to_reasoning) {
  const bool dims = *style_.dim != '\0';
  if (to_reasoning) {
    const std::string blank = began_ ? "\n\n" : "";
    const std::string dimmed = began_ ? style_.dim : "";  // at the beginning it is dimmed anyway
    return dims ? blank + dimmed : blank + tags_->first + "\n";
  }
  return dims ? std::string(style_.reset) + "\n\n" : "\n" + tags_->second + "\n\n";
}

}  // namespace quire::cli
