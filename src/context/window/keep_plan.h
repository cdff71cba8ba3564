// keep_plan.h: what of a request is kept, and why: the window's decision.
//
// plan() is pure: the same request, policy and window give the same plan, whatever any cache holds.
// A request that fits is left as it came, byte for byte. Else the policy's actions are taken in
// their one order until it fits, counted by rendering the whole anew; if nothing fits, the plan
// says so with the numbers. System messages and pinned parts are never touched. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "context/window/draft.h"
#include "context/window/ladder.h"
#include "context/window/request.h"
#include "context/window/retriever.h"

namespace quire::context::window {

/// How many tokens prompt and answer may take, and what says so.
struct Limits {
  int64_t window = 0;
  std::string by = "ctx";          // "trained", "ctx", "memory"
  std::optional<int64_t> trained;  // what the model was trained for
};

/// Tokens for the answer, and what that leaves.
struct Budget {
  int64_t reserve = 0;
  int64_t usable = 0;  // for the prompt
};
Budget budget_of(const Limits& limits, const WindowPolicy& policy);
/// Limits under which a plan compacts to the low watermark; `policy` is given the room for the
/// answer that it has under the whole window, and no steps: the mark leaves room enough to grow.
Limits compacted(const Limits& limits, WindowPolicy& policy);

struct KeepPlan {
  enum class Status : uint8_t { kFits, kChanged, kRefused };
  Status status = Status::kFits;
  Limits limits;
  Budget budget;
  int64_t tokens_before = 0;  // of the request as it came
  /// Of the plan, the room for a summary included; of the smallest that was tried, when refused.
  int64_t tokens = 0;
  Draft draft;
  std::vector<Action> actions;  // taken, in order
  int64_t step_tokens = 0;      // by which cuts move on; 0: as little as needed
  /// That the conversation may have, chunks apart: what whole steps leave of it.
  int64_t conversation_tokens = 0;

  /// What the prompt may have with so many tokens of chunks.
  int64_t most_tokens(int64_t chunk_tokens) const;

  /// What is missing when refused.
  int64_t deficit() const { return tokens > budget.usable ? tokens - budget.usable : 0; }
};

/// A request taken apart, ready to be planned for any window.
class Planner {
 public:
  /// `retriever` is asked only under Policy::kRetrieve; null: the built-in one. Fails as
  /// take_apart() does. The text model's parts must outlive it.
  static Result<std::unique_ptr<Planner>> create(const TextModel& text, WindowRequest request,
                                                 Retriever* retriever = nullptr);

  KeepPlan plan(const Limits& limits) const;

  const WindowRequest& request() const { return request_; }
  const Anatomy& anatomy() const { return anatomy_; }
  const Sources& sources() const { return *sources_; }

 private:
  Planner(const TextModel& text, WindowRequest request, Anatomy anatomy);
  /// The shortest plan that goes by `step`; false if there is none.
  bool shorten(const Step& step, KeepPlan& plan) const;

  WindowRequest request_;
  Anatomy anatomy_;
  std::unique_ptr<Sources> sources_;  // refers to the two above
};

/// The error of a request that is left as it came and does not fit, in the words that clients of
/// OpenAI's API look for.
Error reject_error(const Limits& limits, int64_t prompt_tokens, int64_t reserve);

/// The error of a refused plan, in the words that clients of OpenAI's API look for. Names the
/// window, the prompt's tokens, and what could not be touched.
Error overflow_error(const Planner& planner, const KeepPlan& plan);

}  // namespace quire::context::window
