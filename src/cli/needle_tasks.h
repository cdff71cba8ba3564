// needle_tasks.h: texts with facts planted in them, and the questions that ask for those facts.
//
// Filler sentences without names and numbers, between them facts that no model can know, at chosen
// depths. A question ends where its answer begins, so that a model without a chat template and one
// too small to follow instructions can answer too. Made from a seed alone. Pure functions.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::cli {

enum class NeedleTask : uint8_t {
  kSingle,       // one fact
  kMulti,        // several of its kind, each asked for
  kKeyValue,     // numbers by number
  kDistractors,  // one among others about the same place and about other places
  kTwoHop,       // who holds the key of a place, and far away, what that person's number is
};
inline constexpr int kNumNeedleTasks = 5;

/// "single", "multi", "kv", "distractors", "two-hop".
std::string_view name(NeedleTask task);
std::optional<NeedleTask> needle_task(std::string_view name);

/// One text and one question about it.
struct NeedlePrompt {
  NeedleTask task = NeedleTask::kSingle;
  int64_t length = 0;               // tokens that were aimed at
  double depth = 0.0;               // where the fact lies, 0 to 1; of two, the first
  std::string text;                 // up to where the answer begins
  std::string answer;               // digits
  std::vector<std::string> others;  // answers that are wrong: of the text first
};

struct NeedleRules {
  std::vector<NeedleTask> tasks;
  std::vector<int64_t> lengths;  // tokens of a whole prompt
  std::vector<double> depths;    // ascending, of kSingle and kDistractors
  int64_t distractors = 4;
  int64_t trials = 1;  // of each, with other facts
  uint64_t seed = 0;
};

/// How many tokens a text has.
using TokenCounter = std::function<int64_t(std::string_view text)>;

/// In an order in which neighbours share long beginnings. kUsage if a length has no room for the
/// facts of a task.
Result<std::vector<NeedlePrompt>> make_needle_prompts(const NeedleRules& rules,
                                                      const TokenCounter& count);

}  // namespace quire::cli
