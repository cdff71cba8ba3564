// task_state.h: a finished task's log becomes what is worth knowing of it.
//
// What stands before the conversation stays byte for byte, so that its pages are found again; the
// log goes, and its distilled state comes in its place. Pure functions; any thread.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "context/window/fit.h"
#include "formats/json.h"

namespace quire::context::window {

struct TaskState {
  struct Fact {
    std::string text;
    std::string source;  // "tool#8", "src/a.cc:12"; may be empty
  };
  std::vector<std::string> decisions, done, open;
  std::vector<Fact> facts;
};

/// Reads {decisions?, done?, open?, facts?[{text, src?} or text]}; kUsage if nothing is in it or a
/// field is none of these. `what` names the document in errors.
Result<TaskState> read_task_state(const formats::Json& document, const std::string& what);

/// As it stands in the prompt.
std::string state_text(const TaskState& state);

struct Rebuilt {
  Fitted fitted;
  bool static_prefix_identical = false;  // every token before the conversation is as it was
};
/// A question that waits at the end of the request stays, behind the state.
Result<Rebuilt> replace_log(const Planner& planner, const TaskState& state, const Limits& limits);

/// "the rebuild reads 300 tokens once and saves 5,100 tokens of attention with each new token".
std::string describe_saving(const Rebuilt& rebuilt, int64_t reprefill_tokens);

}  // namespace quire::context::window
