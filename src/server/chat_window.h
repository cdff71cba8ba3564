// chat_window.h: a conversation that does not fit the window, and what the request wants done then.
//
// Reads `context`, OpenAI's `truncation` and each message's `x_context`, and lets the window's
// planner decide. A request that fits is sent as it came; what is changed stands in the report.
// Summaries are extracted: the model's own time belongs to the requests that it answers. Pure but
// for the clock that templates may ask for.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "context/window/fit.h"
#include "formats/json.h"
#include "server/chat_params.h"
#include "server/chat_prompt.h"
#include "server/fields.h"
#include "server/serving.h"

namespace quire::server {

/// What a request says of its window: nothing unless one of the fields is there.
using ChatWindow = std::optional<context::window::WindowRequest>;

/// Reads `context` and `truncation` of `body`, and takes the `x_context` out of the messages of
/// `chat`. Mistakes stay in `fields`.
ChatWindow read_chat_window(Fields& fields, const formats::Json& body,
                            std::optional<int64_t> max_tokens, ChatParams& chat);

/// A conversation as it is sent.
struct FittedChat {
  ChatPrompt prompt;
  std::optional<int64_t> max_tokens;              // that may be generated
  std::optional<context::window::Report> report;  // with a ChatWindow
};

/// 400 `context_length_exceeded` with the numbers if nothing fits; else as render_chat().
ApiResult<FittedChat> fit_chat(const Serving& serving, const Backend& backend,
                               const ChatParams& chat, const ChatWindow& window,
                               std::optional<int64_t> max_tokens);

context::window::Limits limits_of(const Backend& backend);

/// The `context` and `truncation` of a request without messages. Mistakes stay in `fields`.
std::optional<context::window::WindowPolicy> read_text_window(Fields& fields,
                                                              const formats::Json& body,
                                                              std::optional<int64_t> max_tokens);
/// Cuts a text at tokens as the policy says, if it does not fit, and lowers `max_tokens` if it may
/// shrink.
ApiResult<context::window::Report> fit_text(const Backend& backend,
                                            const context::window::WindowPolicy& policy,
                                            engine::Prompt& prompt,
                                            std::optional<int64_t>& max_tokens);

/// The request in the words of the planner, for routes that show a plan and answer nothing.
struct WindowPlan {
  std::unique_ptr<context::window::Planner> planner;
  context::window::Limits limits;
};
ApiResult<WindowPlan> plan_chat(const Backend& backend, const ChatParams& chat,
                                const context::window::WindowRequest& window);
/// What the planner refused.
ApiError window_error(const Error& error, const WindowPlan& plan);

}  // namespace quire::server
