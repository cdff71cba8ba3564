// overflow.h: what --overflow and --fit-output make of a prompt that does not fit.
//
// A prompt that fits is left as it is. Else messages go through the window's planner, plain text is
// cut at tokens, or the command ends with the numbers. Whatever happens is in the report. Pure
// functions but for what they say.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "context/window/fit.h"
#include "engine/prompt.h"
#include "engine/summary_writer.h"
#include "engine/window.h"

namespace quire::cli {

context::window::Limits limits_of(const engine::Window& window, int64_t trained);
/// What --overflow and --fit-output ask for. `max_tokens`: -n.
context::window::WindowPolicy window_policy(const GenerationOptions& options,
                                            std::optional<int64_t> max_tokens);

struct WindowInput {
  PromptMaker maker;
  engine::Window window;
  int64_t trained = 0;
  const GenerationOptions& options;
  /// The prompt of a changed request.
  std::function<Result<engine::Prompt>(const context::ChatRequest&)> render;
  std::vector<std::string> pins = {};
  /// That stand before the question of `prompt` already.
  std::vector<context::window::Chunk> chunks = {};
  context::window::Summarizer* summarizer = nullptr;  // null: extraction
};

/// A model that summarises well enough, ready to; nothing for a small one: then sentences are
/// extracted.
class ModelSummaries {
 public:
  ModelSummaries(const engine::Model& model, engine::Engine& engine);
  context::window::Summarizer* summarizer() { return summarizer_ ? &*summarizer_ : nullptr; }

 private:
  std::optional<engine::SummaryWriter> writer_;
  std::optional<context::window::MapReduceSummarizer> summarizer_;  // refers to writer_
};

struct FittedPrompt {
  engine::Prompt prompt;
  context::window::Report report;  // max_tokens in it is what may be generated
};

/// `max_tokens`: -n. kDoesNotFit with the numbers if nothing fits.
Result<FittedPrompt> fit_prompt(const WindowInput& input, engine::Prompt prompt,
                                std::optional<int64_t> max_tokens);

/// One line on stderr: "fits" with -v, what was kept and dropped always.
void say_what_changed(Output& output, const context::window::Report& report);

}  // namespace quire::cli
