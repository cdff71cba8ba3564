// shown_answer.h: an answer as a chat shows it: what the model thinks apart from what it says.
//
// Reasoning is dimmed where the terminal can, between its tags where it cannot, or left out. Text
// comes in any pieces and goes out as soon as it is decided. Use from one thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/terminal.h"
#include "context/answer_parser.h"

namespace quire::cli {

enum class Reasoning : uint8_t { kShown, kHidden };

class ShownAnswer {
 public:
  using Tags = std::optional<std::pair<std::string, std::string>>;
  /// What opens and closes reasoning; nothing: all is answer. `prompt` is the text that the answer
  /// continues: a template may have opened the block already.
  ShownAnswer(const Tags& tags, std::string_view prompt, const Style& style, Reasoning reasoning);

  std::string push(std::string_view text) { return shown(parser_.push(text)); }
  /// What was held back, at the end of the answer. Call once.
  std::string finish();

 private:
  std::string shown(const context::AnswerEvents& events);
  /// Goes over to reasoning, or to the answer.
  std::string turn(bool to_reasoning);

  Tags tags_;
  Style style_;
  bool hides_;
  bool reasoning_ = false;  // what came last
  bool began_ = false;      // whether anything was shown
  context::AnswerParser parser_;
};

}  // namespace quire::cli
