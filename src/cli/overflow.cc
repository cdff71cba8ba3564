#include "cli/overflow.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/interrupt.h"
#include "context/window/whole.h"
#include "engine/reports.h"

namespace quire::cli {
namespace {

using context::window::KeepPlan;
using context::window::Limits;
using context::window::Policy;
using context::window::Report;
using context::window::WindowPolicy;
using context::window::WindowRequest;

Result<WindowRequest> window_request(const context::ChatRequest& chat, WindowPolicy policy) {
  WindowRequest request;
  request.chat = chat;
  request.chat.insertions.clear();
  QUIRE_TRY(request.contexts, context::window::take_contexts(request.chat.messages));
  request.policy = std::move(policy);
  return request;
}

Result<FittedPrompt> fit_plain(const WindowPolicy& policy, const Limits& limits,
                               const WindowInput& input, engine::Prompt prompt) {
  QUIRE_TRY(context::window::FittedText fitted,
            context::window::fit_text(input.maker.tokenizer, limits, policy, prompt.tokens));
  prompt.tokens = std::move(fitted.tokens);
  prompt.runs = {{0, fitted.report.prompt_tokens, "text"}};
  prompt.parts = {{"text", fitted.report.prompt_tokens}};
  return FittedPrompt{std::move(prompt), std::move(fitted.report)};
}

}  // namespace

Limits limits_of(const engine::Window& window, int64_t trained) {
  return {
      .window = window.tokens, .by = std::string(engine::name(window.limit)), .trained = trained};
}

WindowPolicy window_policy(const GenerationOptions& options, std::optional<int64_t> max_tokens) {
  WindowPolicy policy;
  policy.policy = options.overflow.value_or(Policy::kReject);
  policy.max_tokens = max_tokens;
  if (options.fit_output) policy.output = context::window::Output::kShrink;
  return policy;
}

ModelSummaries::ModelSummaries(const engine::Model& model, engine::Engine& engine) {
  if (!engine::writes_summaries_well(model)) return;
  writer_.emplace(model, engine, [] { return !interrupted(); });
  summarizer_.emplace(model.tokenizer(), *writer_);
}

Result<FittedPrompt> fit_prompt(const WindowInput& input, engine::Prompt prompt,
                                std::optional<int64_t> max_tokens) {
  WindowPolicy policy = window_policy(input.options, max_tokens);
  policy.pins = input.pins;
  const Limits limits = limits_of(input.window, input.trained);
  Report report = context::window::whole_report(
      limits, policy, prompt.request ? &*prompt.request : nullptr, engine::counted_parts(prompt));
  const bool fits = report.prompt_tokens <= report.budget.usable;
  if (fits && input.chunks.empty()) {
    return FittedPrompt{std::move(prompt), std::move(report)};
  }
  if (!fits && policy.policy == Policy::kReject) {
    QUIRE_TRY_VOID(engine::check_fits(input.window, report.prompt_tokens, report.max_tokens));
    return Error{ErrorCode::kDoesNotFit, "the prompt leaves no room for an answer"};
  }
  if (!prompt.request) return fit_plain(policy, limits, input, std::move(prompt));
  QUIRE_TRY(WindowRequest request, window_request(*prompt.request, policy));
  request.chunks = input.chunks;
  const context::window::TextModel text{input.maker.tokenizer, *input.maker.chat_template};
  QUIRE_TRY(const auto planner, context::window::Planner::create(text, std::move(request)));
  QUIRE_TRY(context::window::Fitted fitted,
            context::window::fit(*planner, limits, input.summarizer));
  FittedPrompt out;
  QUIRE_TRY(out.prompt, input.render(fitted.chat));
  out.report = std::move(fitted.report);
  // Tokens that were generated stay as they were chosen, and may be more than their text needs.
  const auto tokens = static_cast<int64_t>(out.prompt.tokens.size());
  if (tokens != out.report.prompt_tokens && tokens > out.report.budget.usable) {
    QUIRE_TRY(out.prompt, engine::chat_prompt(text.tokenizer, text.chat_template, fitted.chat));
  }
  out.report.prompt_tokens = static_cast<int64_t>(out.prompt.tokens.size());
  return out;
}

void say_what_changed(Output& output, const Report& report) {
  const std::string line = context::window::one_line_of(report);
  if (report.status == KeepPlan::Status::kFits && !report.max_tokens_before) {
    output.detail(line);
  } else {
    output.remark(line);
  }
  for (const std::string& note : report.notes) output.remark(note);
}

}  // namespace quire::cli
