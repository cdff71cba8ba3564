// needle_trials.h: what a model finds of planted facts, for one way of keeping keys and values.
//
// Each question is judged twice: by what the model writes by itself, and by whether the right
// answer is likelier than wrong ones. Texts that begin alike are read once. Deterministic: no time
// is part of a result. Use from one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/needle_tasks.h"
#include "engine/engine.h"

namespace quire::cli {

struct NeedleTrial {
  const NeedlePrompt* prompt = nullptr;
  int64_t tokens = 0;     // of the prompt
  std::string written;    // greedily, to the end of the line
  bool answered = false;  // `written` begins with the answer
  bool chosen = false;    // the right answer is likelier than each wrong one
  int64_t rank = 1;       // of the right answer among all
  double margin = 0.0;    // log-probability over the likeliest wrong one
};

struct NeedleRun {
  std::vector<NeedleTrial> trials;  // in the order of the prompts
  int64_t prefilled_tokens = 0;     // read, of all prompts
  int64_t reused_tokens = 0;        // known from prompts before
};

/// Called before each question; returns false to stop, and then the trials so far are returned.
using NeedleProgress = std::function<bool(int64_t done, int64_t total)>;

/// kDoesNotFit if a prompt does not fit the engine's window. `prompts` must outlive the result.
Result<NeedleRun> run_needles(engine::Engine& engine, std::span<const NeedlePrompt> prompts,
                              const NeedleProgress& progress);

/// The tokens of a prompt: special tokens spelled in it are text.
std::vector<TokenId> needle_tokens(const context::Tokenizer& tokenizer, std::string_view text);

}  // namespace quire::cli
