// answer_scanner.h: what AnswerParser delegates to, one scanner for each way of structuring
// answers.
//
// Holds text until it is decided and collects events, joining neighbours of one kind.
// Single-threaded.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "context/answer_parser.h"

namespace quire::context {

class AnswerScanner {
 public:
  virtual ~AnswerScanner() = default;
  AnswerScanner() = default;
  AnswerScanner(const AnswerScanner&) = delete;
  AnswerScanner& operator=(const AnswerScanner&) = delete;

  AnswerEvents push(std::string_view text) {
    held_ += text;
    while (step()) {
    }
    return std::exchange(events_, {});
  }
  AnswerEvents finish() {
    end();
    return std::exchange(events_, {});
  }

 protected:
  /// Decides about the beginning of held_. False when it takes more text.
  virtual bool step() = 0;
  /// No more text comes: decides about all of held_.
  virtual void end() = 0;

  void emit(AnswerEvent::Kind kind, std::string_view text);
  void emit(std::vector<ToolCall> calls);
  /// Removes and returns the first bytes of held_.
  std::string take(size_t bytes);

  std::string held_;

 private:
  AnswerEvents events_;
};

/// How many bytes at the end of `text` may be the beginning of `marker`.
size_t begun_marker(std::string_view text, std::string_view marker);

/// `text` without blanks at its end.
std::string_view without_trailing_blanks(std::string_view text);

/// Answers with reasoning tags and calls between markers: every format but gpt-oss's.
std::unique_ptr<AnswerScanner> make_marker_scanner(const AnswerFormat& format,
                                                   std::string_view prompt_tail);

/// gpt-oss: messages of several channels. Source: openai/harmony, docs/format.md.
std::unique_ptr<AnswerScanner> make_harmony_scanner(std::string_view prompt_tail);

}  // namespace quire::context
