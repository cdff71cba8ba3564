#include "context/answer_parser.h"

#include <algorithm>

#include "context/answer_scanner.h"

namespace quire::context {

void AnswerScanner::emit(AnswerEvent::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!events_.empty() && events_.back().kind == kind) {
    events_.back().text += text;
  } else {
    events_.push_back({kind, std::string(text), {}});
  }
}

void AnswerScanner::emit(std::vector<ToolCall> calls) {
  for (ToolCall& call : calls) {
    events_.push_back({AnswerEvent::Kind::kToolCall, {}, std::move(call)});
  }
}

std::string AnswerScanner::take(size_t bytes) {
  std::string text = held_.substr(0, bytes);
  held_.erase(0, bytes);
  return text;
}

size_t begun_marker(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length) {
    if (text.ends_with(marker.substr(0, length))) return length;
  }
  return 0;
}

std::string_view without_trailing_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

AnswerParser::AnswerParser(const AnswerFormat& format, std::string_view prompt_tail)
    : scanner_(format.tool_calls == ToolCallFormat::kHarmony
                   ? make_harmony_scanner(prompt_tail)
                   : make_marker_scanner(format, prompt_tail)) {}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

AnswerEvents AnswerParser::push(std::string_view text) {
  return scanner_->push(text);
}

AnswerEvents AnswerParser::finish() {
  return scanner_->finish();
}

AnswerDecoder::AnswerDecoder(const Tokenizer& tokenizer, const AnswerFormat& format,
                             std::string_view prompt_tail)
    : tokenizer_(&tokenizer),
      format_(format),
      decoder_(tokenizer, SpecialText::kShow, StreamDecoder::Start::kContinuation),
      parser_(format, prompt_tail) {}

bool AnswerDecoder::is_marker(std::string_view piece) const {
  const auto known = markers(format_.tool_calls);
  if (std::ranges::find(known, piece) != known.end()) return true;
  const auto& tags = format_.reasoning_tags;
  return tags && (piece == tags->first || piece == tags->second);
}

AnswerEvents AnswerDecoder::push(TokenId id) {
  if (tokenizer_->is_control(id) && !is_marker(tokenizer_->piece(id))) return {};
  return parser_.push(decoder_.push(id));
}

AnswerEvents AnswerDecoder::finish() {
  AnswerEvents events = parser_.finish();
  return events;
}

}  // namespace quire::context
