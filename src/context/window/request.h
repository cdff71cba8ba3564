// request.h: a chat request as the window sees it: messages and what may be done with them.
//
// Reads OpenAI's chat request with `x_context` beside each message and `context` beside them all.
// `x_context` never reaches the template. Plain data and pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "context/chat_template.h"
#include "context/window/part.h"
#include "context/window/policy.h"
#include "formats/json.h"

namespace quire::context::window {

/// What a caller says of one message; absent fields are decided by role and place.
struct MessageContext {
  std::optional<PartKind> kind;
  std::optional<int32_t> priority;
  std::optional<bool> pin;
  std::optional<Stability> stability;
  std::string handle;
  std::string db_ref;
};

/// A piece of a document that was found for the question. It stands before the question.
struct Chunk {
  std::string id;      // unique within the request
  std::string source;  // "report.pdf, page 3"
  std::string text;
  double score = 0.0;              // higher is better
  std::optional<int32_t> message;  // of the history it was taken from
};

struct WindowRequest {
  ChatRequest chat;                      // messages without x_context; no insertions
  std::vector<MessageContext> contexts;  // one a message
  std::vector<Chunk> chunks;             // in the order in which they are to stand
  WindowPolicy policy;
};

/// Takes `x_context` out of the messages. kUsage if a message is no object or its x_context is
/// malformed ("messages[3].x_context.kind ...").
Result<std::vector<MessageContext>> take_contexts(formats::Json& messages);

/// Reads {messages, tools?, documents?, chat_template_kwargs?, add_generation_prompt?, max_tokens?
/// or max_completion_tokens?, truncation?, context?{..., rag?{chunks[{id?, source?, text,
/// score?}]}}}. Special tokens and the time are left to the caller. `what` names the document in
/// errors.
Result<WindowRequest> read_window_request(const formats::Json& document, const std::string& what);

/// The text of a message's content, if it is text, whole or in parts.
std::optional<std::string> content_text(const formats::Json& message);
/// Sets it, in the form that it had.
void set_content_text(formats::Json& message, std::string text);
/// "" if there is none.
std::string role_of(const formats::Json& message);
bool has_tool_calls(const formats::Json& message);

}  // namespace quire::context::window
