#include "cli/overflow.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/interrupt.h"
#include "context/window/grouping.h"
#include "context/window/raw_cut.h"

namespace quire::cli {
namespace {

using context::window::KeepPlan;
using context::window::Limits;
using context::window::PartKind;
using context::window::PartReport;
using context::window::Policy;
using context::window::Report;
using context::window::WindowPolicy;
using context::window::WindowRequest;

WindowPolicy policy_of(const WindowInput& input, std::optional<int64_t> max_tokens) {
  WindowPolicy policy;
  policy.policy = input.options.overflow.value_or(Policy::kReject);
  policy.max_tokens = max_tokens;
  if (input.options.fit_output) policy.output = context::window::Output::kShrink;
  policy.pins = input.pins;
  return policy;
}

Report report_of(const Limits& limits, const WindowPolicy& policy, const engine::Prompt& prompt) {
  Report report;
  report.policy = policy.policy;
  report.limits = limits;
  report.budget = context::window::budget_of(limits, policy);
  report.tokens_before = report.prompt_tokens = static_cast<int64_t>(prompt.tokens.size());
  context::window::decide_output(policy, report);
  return report;
}

Result<WindowRequest> window_request(const context::ChatRequest& chat, WindowPolicy policy) {
  WindowRequest request;
  request.chat = chat;
  QUIRE_TRY(request.contexts, context::window::take_contexts(request.chat.messages));
  request.policy = std::move(policy);
  return request;
}

/// The parts of a prompt that fits, under the names that the planner gives them.
Result<std::vector<PartReport>> whole_parts(const engine::Prompt& prompt) {
  std::vector<PartReport> rows;
  std::vector<context::window::Part> messages;
  if (prompt.request) {
    QUIRE_TRY(const WindowRequest request, window_request(*prompt.request, {}));
    messages =
        context::window::group_messages(*request.chat.messages.as_array(), request.contexts).parts;
  }
  for (const engine::PromptPart& part : prompt.parts) {
    PartReport row{.part = part.what,
                   .kind = PartKind::kTemplate,
                   .before = part.tokens,
                   .after = part.tokens,
                   .action = "kept",
                   .handle = {},
                   .why = {}};
    for (size_t i = 0; i < messages.size(); ++i) {
      const bool system = part.what == "system" && i == 0;
      if (!system && !part.what.starts_with(fmt::format("message[{}] ", i))) continue;
      row.part = messages[i].id;
      row.kind = messages[i].kind;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<FittedPrompt> cut_plain(const WindowPolicy& policy, const Limits& limits,
                               const WindowInput& input, engine::Prompt prompt) {
  Report report = report_of(limits, policy, prompt);
  QUIRE_TRY(const auto cut,
            context::window::cut_raw(input.maker.tokenizer, prompt.tokens, policy.policy, report));
  prompt.tokens = cut;
  prompt.runs = {{0, report.prompt_tokens, "text"}};
  prompt.parts = {{"text", report.prompt_tokens}};
  context::window::decide_output(policy, report);
  return FittedPrompt{std::move(prompt), std::move(report)};
}

}  // namespace

ModelSummaries::ModelSummaries(const engine::Model& model, engine::Engine& engine) {
  if (!engine::writes_summaries_well(model)) return;
  writer_.emplace(model, engine, [] { return !interrupted(); });
  summarizer_.emplace(model.tokenizer(), *writer_);
}

Result<FittedPrompt> fit_prompt(const WindowInput& input, engine::Prompt prompt,
                                std::optional<int64_t> max_tokens) {
  const WindowPolicy policy = policy_of(input, max_tokens);
  const Limits limits{.window = input.window.tokens,
                      .by = std::string(engine::name(input.window.limit)),
                      .trained = input.trained};
  Report report = report_of(limits, policy, prompt);
  if (report.prompt_tokens <= report.budget.usable) {
    QUIRE_TRY(report.parts, whole_parts(prompt));
    return FittedPrompt{std::move(prompt), std::move(report)};
  }
  if (policy.policy == Policy::kReject) {
    QUIRE_TRY_VOID(engine::check_fits(input.window, report.prompt_tokens, report.max_tokens));
    return Error{ErrorCode::kDoesNotFit, "the prompt leaves no room for an answer"};
  }
  if (!prompt.request) return cut_plain(policy, limits, input, std::move(prompt));
  QUIRE_TRY(WindowRequest request, window_request(*prompt.request, policy));
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
