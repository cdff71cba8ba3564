// chat_renderer.h: one rendering of a compiled template with Hugging Face's variables, and its
// spans.
//
// Between ChatTemplate and the Jinja library: turns a request and its (adapted) messages into
// variables that carry their origins, and origins back into PromptSources. A function without
// state.
#pragma once
#include "base/result.h"
#include "context/chat_adapters.h"
#include "context/chat_template.h"
#include "context/jinja/template.h"

namespace quire::context {

/// Requires request.messages to be an array of objects; `conversation` was made from it.
Result<RenderedPrompt> render_conversation(const jinja::Template& compiled,
                                           const ChatRequest& request,
                                           const AdaptedConversation& conversation,
                                           const jinja::Limits& limits = {});

}  // namespace quire::context
