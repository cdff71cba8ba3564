// answer_parser.h: tells reasoning, content and tool calls apart while an answer streams in.
//
// Text arrives in any pieces, and the events do not depend on how it was cut: what may be the
// beginning of a marker is held until that is decided. Content and reasoning stream; a tool call
// comes as one event once it is complete. What looks like a call and is none comes as content, byte
// for byte. Blanks around reasoning and calls are dropped, as templates do when they render the
// turn again. Use one from one thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "context/answer_format.h"
#include "context/stream_decoder.h"
#include "context/tool_call_text.h"

namespace quire::context {

struct AnswerEvent {
  enum class Kind : uint8_t { kContent, kReasoning, kToolCall };
  Kind kind = Kind::kContent;
  std::string text;  // of content and reasoning, never empty
  ToolCall call;     // of a tool call
  friend bool operator==(const AnswerEvent&, const AnswerEvent&) = default;
};
using AnswerEvents = std::vector<AnswerEvent>;

class AnswerScanner;

class AnswerParser {
 public:
  /// `prompt_tail` is the end of the text that the answer continues: a template may have opened the
  /// reasoning block, or a message, already.
  AnswerParser(const AnswerFormat& format, std::string_view prompt_tail);
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;
  ~AnswerParser();

  AnswerEvents push(std::string_view text);
  /// What was held back, at the end of the answer. Call once.
  AnswerEvents finish();

 private:
  std::unique_ptr<AnswerScanner> scanner_;
};

/// The same for tokens: control tokens are dropped, but for those that structure the answer.
class AnswerDecoder {
 public:
  /// `tokenizer` must outlive it.
  AnswerDecoder(const Tokenizer& tokenizer, const AnswerFormat& format,
                std::string_view prompt_tail);

  AnswerEvents push(TokenId id);
  AnswerEvents finish();

 private:
  bool is_marker(std::string_view piece) const;

  const Tokenizer* tokenizer_;
  AnswerFormat format_;
  StreamDecoder decoder_;
  AnswerParser parser_;
};

}  // namespace quire::context
