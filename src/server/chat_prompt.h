// chat_prompt.h: a checked conversation becomes tokens, and how to read what is answered to it.
//
// Renders the model's template with tools and variables, finds the answer's format and builds the
// constraint that tool_choice and response_format ask for. Pure but for the clock that templates
// may ask for.
#pragma once
#include <memory>
#include <optional>

#include "context/answer_format.h"
#include "engine/prompt.h"
#include "engine/token_constraint.h"
#include "server/api_error.h"
#include "server/chat_params.h"
#include "server/serving.h"

namespace quire::server {

struct ChatPrompt {
  engine::Prompt prompt;
  context::AnswerFormat format;
};

/// Why a model answers no conversations.
ApiError no_template(const engine::Model& model);
/// What the template is given: tools as text where it knows none. Requires a template.
context::ChatRequest chat_request(const engine::Model& model, const ChatParams& chat);
/// Renders a request that was made from `chat`. 400 if the template refuses it.
ApiResult<ChatPrompt> render_request(const engine::Model& model, const ChatParams& chat,
                                     const context::ChatRequest& request);
/// All three: 400 if the model has no template or the template refuses the conversation.
ApiResult<ChatPrompt> render_chat(const engine::Model& model, const ChatParams& chat);

/// What the answer is held to: null if anything may be said.
ApiResult<std::unique_ptr<engine::TokenConstraint>> make_constraint(const Backend& backend,
                                                                    const ChatParams& chat,
                                                                    const ChatPrompt& prompt);

/// Nothing if the prompt and what is asked for fit; `param` is where the prompt stood.
std::optional<ApiError> check_window(const Serving& serving, const Backend& backend,
                                     int64_t prompt_tokens, std::optional<int64_t> max_tokens,
                                     const std::string& param);

}  // namespace quire::server
