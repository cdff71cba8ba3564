#include "server/chat_window.h"

#include <algorithm>

#include "context/window/whole.h"
#include "engine/window.h"

namespace quire::server {
namespace {

using context::window::Fitted;
using context::window::Planner;
using context::window::WindowRequest;
using formats::Json;

/// "context.policy must be ..." names its field first.
ApiError field_error(const Error& error) {
  return bad_param(error.message.substr(0, error.message.find(' ')), error.message + ".");
}

bool says_something(const Json& body, const Json& messages) {
  if (body.find("context") != nullptr || body.find("truncation") != nullptr) return true;
  return std::ranges::any_of(*messages.as_array(), [](const Json& message) {
    return message.find("x_context") != nullptr;
  });
}

/// What the window's reader looks at: messages as templates will see them.
Json window_document(const Json& body, const Json& messages) {
  Json document;
  document.set("messages", messages);
  for (const char* name : {"context", "truncation"}) {
    if (const Json* value = body.find(name)) document.set(name, *value);
  }
  return document;
}

}  // namespace

context::window::Limits limits_of(const Backend& backend) {
  const engine::Window& window = backend.engine.window();
  return {.window = window.tokens,
          .by = std::string(engine::name(window.limit)),
          .trained = backend.model.config().context};
}

ChatWindow read_chat_window(Fields& fields, const Json& body, std::optional<int64_t> max_tokens,
                            ChatParams& chat) {
  if (!fields.ok() || !says_something(body, chat.messages)) return std::nullopt;
  Result<WindowRequest> request =
      context::window::read_window_request(window_document(body, chat.messages), "the request");
  if (request.ok()) {
    // The messages that templates see are those of `chat`, without what is said of them.
    const auto taken = context::window::take_contexts(chat.messages);
    if (!taken.ok()) request = taken.error();
  }
  if (!request.ok()) {
    fields.fail(field_error(request.error()));
    return std::nullopt;
  }
  request->policy.max_tokens = max_tokens;
  return *std::move(request);
}

ApiResult<WindowPlan> plan_chat(const Backend& backend, const ChatParams& chat,
                                const WindowRequest& window) {
  const context::ChatTemplate* chat_template = backend.model.chat_template();
  if (chat_template == nullptr) return no_template(backend.model);
  WindowRequest request = window;
  request.chat = chat_request(backend.model, chat);
  // Tools that become text may have brought a system message with them.
  const size_t count = request.chat.messages.as_array()->size();
  while (request.contexts.size() < count) request.contexts.emplace(request.contexts.begin());
  Result<std::unique_ptr<Planner>> planner =
      Planner::create({backend.model.tokenizer(), *chat_template}, std::move(request));
  if (!planner.ok()) {
    return planner.error().code == ErrorCode::kUsage
               ? field_error(planner.error())
               : bad_param("messages", planner.error().message);
  }
  return WindowPlan{*std::move(planner), limits_of(backend)};
}

ApiError window_error(const Error& error, const WindowPlan& plan) {
  if (error.code != ErrorCode::kDoesNotFit) return from_error(error);
  const int64_t tokens = plan.planner->anatomy().prompt.count();
  ApiError out = context_exceeded(plan.limits.window, tokens, std::nullopt, "messages");
  out.message = error.message + ".";
  return out;
}

ApiResult<FittedChat> fit_chat(const Serving& serving, const Backend& backend,
                               const ChatParams& chat, const ChatWindow& window,
                               std::optional<int64_t> max_tokens) {
  FittedChat out{.prompt = {}, .max_tokens = max_tokens, .report = std::nullopt};
  if (!window) {
    ApiResult<ChatPrompt> rendered = render_chat(backend.model, chat);
    if (!rendered.ok()) return rendered.error();
    out.prompt = std::move(*rendered);
  } else {
    ApiResult<WindowPlan> plan = plan_chat(backend, chat, *window);
    if (!plan.ok()) return plan.error();
    Result<Fitted> fitted = context::window::fit(*plan->planner, plan->limits);
    if (!fitted.ok()) return window_error(fitted.error(), *plan);
    ApiResult<ChatPrompt> rendered = render_request(backend.model, chat, fitted->chat);
    if (!rendered.ok()) return rendered.error();
    out.prompt = std::move(*rendered);
    out.max_tokens = fitted->report.max_tokens;
    out.report = std::move(fitted->report);
  }
  const auto tokens = static_cast<int64_t>(out.prompt.prompt.tokens.size());
  if (auto misfit = check_window(serving, backend, tokens, out.max_tokens, "messages")) {
    return *std::move(misfit);
  }
  return out;
}

std::optional<context::window::WindowPolicy> read_text_window(Fields& fields, const Json& body,
                                                              std::optional<int64_t> max_tokens) {
  const Json* context = body.find("context");
  const Json* truncation = body.find("truncation");
  if (!fields.ok() || (context == nullptr && truncation == nullptr)) return std::nullopt;
  context::window::WindowPolicy policy;
  Result<void> read;
  if (truncation != nullptr) read = context::window::read_truncation(*truncation, policy);
  if (read.ok() && context != nullptr) read = context::window::read_context_field(*context, policy);
  if (!read.ok()) fields.fail(field_error(read.error()));
  policy.max_tokens = max_tokens;
  return policy;
}

ApiResult<context::window::Report> fit_text(const Backend& backend,
                                            const context::window::WindowPolicy& policy,
                                            engine::Prompt& prompt,
                                            std::optional<int64_t>& max_tokens) {
  const context::window::Limits limits = limits_of(backend);
  Result<context::window::FittedText> fitted =
      context::window::fit_text(backend.model.tokenizer(), limits, policy, prompt.tokens);
  if (!fitted.ok()) {
    if (fitted.error().code == ErrorCode::kUsage) {
      return bad_param("context.policy", fitted.error().message + ".");
    }
    ApiError error = context_exceeded(limits.window, static_cast<int64_t>(prompt.tokens.size()),
                                      std::nullopt, "prompt");
    error.message = fitted.error().message + ".";
    return error;
  }
  if (fitted->report.status == context::window::KeepPlan::Status::kChanged) {
    prompt.tokens = std::move(fitted->tokens);
    prompt.runs = {{0, fitted->report.prompt_tokens, "text"}};
    prompt.parts = {{"text", fitted->report.prompt_tokens}};
  }
  max_tokens = fitted->report.max_tokens;
  return std::move(fitted->report);
}

}  // namespace quire::server
