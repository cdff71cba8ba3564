// ladder.h: the actions of a policy, in the one order in which they are taken.
//
// The order depends on the request and the policy, never on the window: a plan is a beginning of
// the ladder, so a bigger window never keeps less. In steps it also depends on where the last step
// began, and on nothing that came later: the cut stays where it is until the next. Pure functions.
#pragma once
#include <cstdint>
#include <vector>

#include "context/window/draft.h"

namespace quire::context::window {

struct Action {
  enum class Kind : uint8_t {
    kSupersede,       // a result that a later call repeats
    kMask,            // an old tool result becomes a stub
    kRemoveThinking,  // of an old answer
    kDropChunk,
    kDropGroup,
    kSummarize,    // one more group goes into the summary, which has `keep` tokens at most
    kDropSummary,  // it goes too
    kRetrieve,     // the history goes, its excerpts come
    kCut,          // a message to `keep` tokens
  };
  Kind kind = Kind::kDropGroup;
  int32_t target = 0;  // message, chunk or group; none for kDropSummary and kRetrieve
  int64_t keep = 0;    // tokens, for kCut and kSummarize
  Truncate truncate = Truncate::kNone;
  /// Tokens that it takes away at most: by this, plans that cannot fit are passed over.
  int64_t saves_at_most = 0;
  /// Whether the plan may end here: not where a summary of so little is not worth its while.
  bool may_stop = true;
};

/// How far cuts go while a conversation grows: by whole steps, so that most turns find their prefix
/// again.
struct Step {
  int64_t tokens = 0;  // 0: as little as needed
  int64_t saved = 0;   // the multiple of it that is to be taken from the conversation
  /// Messages before it decide what is done: those that were there when this step began.
  int32_t settled = INT32_MAX;
  int64_t most_summary = 512;  // tokens that a summary may take
};
/// The smallest number of steps that takes the conversation down to `usable` tokens, chunks apart:
/// they change with every question.
Step step_for(const Sources& sources, int64_t tokens, int64_t usable);

std::vector<Action> make_ladder(const Sources& sources, const Step& step);

void apply(const Sources& sources, const Action& action, Draft& draft);
/// The draft after the first `count` actions.
Draft after(const Sources& sources, const std::vector<Action>& ladder, size_t count);

/// Tokens of the request's own chunks that a draft keeps.
int64_t kept_chunk_tokens(const Sources& sources, const Draft& draft);

}  // namespace quire::context::window
