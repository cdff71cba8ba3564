#include "context/window/request.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::context::window {
namespace {

using formats::Json;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

std::optional<Stability> stability_of(const std::string& name) {
  for (const Stability s :
       {Stability::kStatic, Stability::kSession, Stability::kLog, Stability::kVolatile}) {
    if (window::name(s) == name) return s;
  }
  return std::nullopt;
}

/// Kinds that a caller may give a message; the others are not messages.
bool is_message_kind(PartKind kind) {
  return kind != PartKind::kTemplate && kind != PartKind::kTools;
}

Result<void> read_context_member(const std::string& field, const std::string& key,
                                 const Json& value, MessageContext& context) {
  const std::string* text = value.as_string();
  if (key == "kind") {
    context.kind = text != nullptr ? part_kind(*text) : std::nullopt;
    if (!context.kind || !is_message_kind(*context.kind)) {
      return usage(field +
                   " must be one of system, project, fewshot, memory, history, tool_result, rag, "
                   "summary, state, question");
    }
  } else if (key == "priority") {
    const auto priority = value.as_int();
    if (!priority || *priority < -1000000 || *priority > 1000000) {
      return usage(field + " must be an integer between -1000000 and 1000000");
    }
    context.priority = static_cast<int32_t>(*priority);
  } else if (key == "pin") {
    if (!value.is_bool()) return usage(field + " must be true or false");
    context.pin = value.as_bool();
  } else if (key == "stability") {
    context.stability = text != nullptr ? stability_of(*text) : std::nullopt;
    if (!context.stability) return usage(field + " must be static, session, log or volatile");
  } else if (key == "handle" || key == "db_ref") {
    if (text == nullptr || text->size() > 256) return usage(field + " must be a short text");
    (key == "handle" ? context.handle : context.db_ref) = *text;
  } else {
    return usage(field + " is no field; there are kind, priority, pin, stability, handle, db_ref");
  }
  return {};
}

Result<MessageContext> read_message_context(const Json& value, const std::string& where) {
  MessageContext context;
  const Json::Object* members = value.as_object();
  if (members == nullptr) return usage(where + " must be an object");
  for (const auto& [key, member] : *members) {
    if (member.is_null()) continue;
    QUIRE_TRY_VOID(read_context_member(where + "." + key, key, member, context));
  }
  return context;
}

Result<Chunk> read_chunk(const Json& value, size_t index) {
  const std::string where = fmt::format("context.rag.chunks[{}]", index);
  const auto text_member = [&](std::string_view key) -> const std::string* {
    const Json* member = value.find(key);
    return member != nullptr ? member->as_string() : nullptr;
  };
  Chunk chunk;
  const std::string* text = text_member("text");
  if (text == nullptr) return usage(where + " must be an object with a \"text\"");
  chunk.text = *text;
  const std::string* id = text_member("id");
  chunk.id = id != nullptr ? *id : std::to_string(index);
  if (const std::string* source = text_member("source")) chunk.source = *source;
  // Without scores the first is the best, as searches answer.
  chunk.score = -static_cast<double>(index);
  if (const Json* score = value.find("score")) {
    if (!score->is_number()) return usage(where + ".score must be a number");
    chunk.score = *score->as_double();
  }
  return chunk;
}

Result<std::vector<Chunk>> read_chunks(const Json* context) {
  std::vector<Chunk> chunks;
  const Json* rag = context != nullptr ? context->find("rag") : nullptr;
  const Json* list = rag != nullptr ? rag->find("chunks") : nullptr;
  if (list == nullptr || list->is_null()) return chunks;
  const Json::Array* array = list->as_array();
  if (array == nullptr) return usage("context.rag.chunks must be an array");
  for (const Json& entry : *array) {
    QUIRE_TRY(Chunk chunk, read_chunk(entry, chunks.size()));
    const bool repeated =
        std::ranges::any_of(chunks, [&](const Chunk& c) { return c.id == chunk.id; });
    if (repeated)
      return usage(fmt::format("context.rag.chunks[{}].id is not unique", chunks.size()));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

Result<void> read_max_tokens(const Json& document, WindowPolicy& policy) {
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    const Json* value = document.find(key);
    if (value == nullptr || value->is_null()) continue;
    const auto tokens = value->as_int();
    if (!tokens || *tokens < 1 || *tokens > INT32_MAX) {
      return usage(fmt::format("{} must be an integer from 1 on", key));
    }
    policy.max_tokens = *tokens;
  }
  return {};
}

Result<ChatRequest> read_chat(const Json& document, const std::string& what) {
  ChatRequest chat;
  const Json* messages = document.is_array() ? &document : document.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    return usage(what + " holds no array \"messages\"");
  }
  if (messages->as_array()->empty()) return usage("messages must not be empty");
  chat.messages = *messages;
  const auto take = [&](const char* key, Json& into) {
    if (const Json* value = document.find(key)) into = *value;
  };
  take("tools", chat.tools);
  take("documents", chat.documents);
  take("chat_template_kwargs", chat.kwargs);
  if (!chat.tools.is_null() && !chat.tools.is_array()) return usage("tools must be an array");
  if (!chat.documents.is_null() && !chat.documents.is_array()) {
    return usage("documents must be an array");
  }
  if (!chat.kwargs.is_null() && !chat.kwargs.is_object()) {
    return usage("chat_template_kwargs must be an object");
  }
  if (const Json* add = document.find("add_generation_prompt")) {
    if (!add->is_bool()) return usage("add_generation_prompt must be true or false");
    if (!*add->as_bool()) chat.generation_prompt = GenerationPrompt::kOmit;
  }
  return chat;
}

bool is_text_part(const Json& part) {
  const Json* type = part.find("type");
  const Json* text = part.find("text");
  return type != nullptr && type->as_string() != nullptr && *type->as_string() == "text" &&
         text != nullptr && text->is_string();
}

}  // namespace

Result<std::vector<MessageContext>> take_contexts(Json& messages) {
  std::vector<MessageContext> contexts;
  for (Json& message : *messages.as_array()) {
    const size_t index = contexts.size();
    contexts.emplace_back();
    if (!message.is_object()) return usage(fmt::format("messages[{}] must be an object", index));
    const Json* role = message.find("role");
    if (role == nullptr || !role->is_string()) {
      return usage(fmt::format("messages[{}].role must be a text", index));
    }
    const Json* found = message.find("x_context");
    if (found == nullptr) continue;
    if (!found->is_null()) {
      QUIRE_TRY(contexts.back(),
                read_message_context(*found, fmt::format("messages[{}].x_context", index)));
    }
    std::erase_if(*message.as_object(),
                  [](const Json::Member& member) { return member.first == "x_context"; });
  }
  return contexts;
}

Result<WindowRequest> read_window_request(const Json& document, const std::string& what) {
  WindowRequest request;
  QUIRE_TRY(request.chat, read_chat(document, what));
  QUIRE_TRY(request.contexts, take_contexts(request.chat.messages));
  QUIRE_TRY_VOID(read_max_tokens(document, request.policy));
  if (const Json* truncation = document.find("truncation")) {
    QUIRE_TRY_VOID(read_truncation(*truncation, request.policy));
  }
  const Json* context = document.find("context");
  if (context != nullptr) QUIRE_TRY_VOID(read_context_field(*context, request.policy));
  QUIRE_TRY(request.chunks, read_chunks(context));
  return request;
}

std::optional<std::string> content_text(const Json& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return std::nullopt;
  if (const std::string* text = content->as_string()) return *text;
  const Json::Array* parts = content->as_array();
  if (parts == nullptr || !std::ranges::all_of(*parts, is_text_part)) return std::nullopt;
  std::string joined;
  for (const Json& part : *parts) joined += *part.find("text")->as_string();
  return joined;
}

void set_content_text(Json& message, std::string text) {
  const Json* content = message.find("content");
  if (content == nullptr || !content->is_array()) {
    message.set("content", std::move(text));
    return;
  }
  Json part;
  part.set("type", "text");
  part.set("text", std::move(text));
  message.set("content", Json(Json::Array{std::move(part)}));
}

std::string role_of(const Json& message) {
  const Json* role = message.find("role");
  return role != nullptr && role->is_string() ? *role->as_string() : std::string();
}

bool has_tool_calls(const Json& message) {
  const Json* calls = message.find("tool_calls");
  return calls != nullptr && calls->is_array() && !calls->as_array()->empty();
}

}  // namespace quire::context::window
