// ladder.h: the actions of a policy, in the one order in which they are taken.
//
// The order depends on the request and the policy, never on the window: a plan is a beginning of
// the ladder, so a bigger window never keeps less. Pure functions.
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
    kSummarize,    // one more group goes into the summary
    kDropSummary,  // it goes too
    kRetrieve,     // the history goes, its excerpts come
    kCut,          // a message to `keep` tokens
  };
  Kind kind = Kind::kDropGroup;
  int32_t target = 0;  // message, chunk or group; none for kDropSummary and kRetrieve
  int64_t keep = 0;    // tokens, for kCut
  Truncate truncate = Truncate::kNone;
  /// Tokens that it takes away at most: by this, plans that cannot fit are passed over.
  int64_t saves_at_most = 0;
  /// Whether the plan may end here; not inside a step.
  bool may_stop = true;
};

/// How far a cut moves at once, in tokens of the conversation; 0: as little as needed.
struct Step {
  int64_t tokens = 0;
};

std::vector<Action> make_ladder(const Sources& sources, Step step);

void apply(const Sources& sources, const Action& action, Draft& draft);
/// The draft after the first `count` actions.
Draft after(const Sources& sources, const std::vector<Action>& ladder, size_t count);

/// Room for a summary of so many tokens: a quarter, within a limit; 0 where none is worth its
/// while.
int64_t summary_room(int64_t input_tokens);

}  // namespace quire::context::window
