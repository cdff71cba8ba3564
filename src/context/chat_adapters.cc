#include "context/chat_adapters.h"

#include <fmt/format.h>

#include <optional>

#include "context/jinja/from_json.h"
#include "context/jinja/runtime.h"
#include "context/jinja/to_json.h"

namespace quire::context {
namespace {

using formats::Json;

bool has_role(const Json& message, std::string_view role) {
  const Json* value = message.find("role");
  return value != nullptr && value->is_string() && *value->as_string() == role;
}

bool is_text_part(const Json& part) {
  const Json* type = part.find("type");
  const Json* text = part.find("text");
  return type != nullptr && type->is_string() && *type->as_string() == "text" && text != nullptr &&
         text->is_string();
}

/// The text of content that is only text, as a string or in parts.
std::optional<std::string> text_of(const Json& content) {
  if (const std::string* text = content.as_string()) return *text;
  const Json::Array* parts = content.as_array();
  if (parts == nullptr) return std::nullopt;
  std::string joined;
  for (const Json& part : *parts) {
    if (!is_text_part(part)) return std::nullopt;
    joined += *part.find("text")->as_string();
  }
  return joined;
}

Json text_parts(const std::string& text) {
  Json part;
  part.set("type", "text");
  part.set("text", text);
  return Json(Json::Array{std::move(part)});
}

/// As Python's json.dumps writes it: what templates for string arguments were made with.
std::string python_json(const Json& json) {
  jinja::Runtime runtime({}, {});
  const auto value = jinja::from_json(json, jinja::kTemplateOrigin);
  if (!value.ok()) return json.dump();
  const auto text = jinja::to_json(runtime, *value, {});
  return text.ok() ? std::string(text->bytes()) : json.dump();
}

Json adapted_arguments(const Json& arguments, Adapters::Arguments wanted) {
  if (wanted == Adapters::Arguments::kString) {
    return arguments.is_object() ? Json(python_json(arguments)) : arguments;
  }
  const std::string* text = arguments.as_string();
  if (text == nullptr) return arguments;
  auto parsed = Json::parse(*text, "tool-call arguments");
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : arguments;
}

/// A call is {"function": {"name", "arguments"}}, or the inner object by itself.
void adapt_call(Json& call, Adapters::Arguments wanted) {
  if (const Json* arguments = call.find("arguments")) {
    call.set("arguments", adapted_arguments(*arguments, wanted));
  }
  if (const Json* function = call.find("function"); function != nullptr && function->is_object()) {
    Json inner = *function;
    adapt_call(inner, wanted);
    call.set("function", std::move(inner));
  }
}

bool has_tool_calls(const Json& message) {
  const Json* calls = message.find("tool_calls");
  return calls != nullptr && calls->is_array() && !calls->as_array()->empty();
}

void adapt_tool_calls(Json& message, const Adapters& adapters) {
  Json calls = *message.find("tool_calls");
  for (Json& call : *calls.as_array()) {
    if (call.is_object()) adapt_call(call, adapters.arguments);
  }
  message.set("tool_calls", std::move(calls));
  const Json* content = message.find("content");
  if (content != nullptr && !content->is_null()) return;
  const bool empty = adapters.null_content == Adapters::NullContent::kEmptyString;
  message.set("content", empty ? Json("") : Json());
}

void adapt_content(Json& message, const Adapters& adapters) {
  const Json* content = message.find("content");
  if (content == nullptr) return;
  const std::optional<std::string> text = text_of(*content);
  if (!text) return;
  const bool is_string = content->is_string();
  if (adapters.content == Adapters::Content::kString && !is_string) message.set("content", *text);
  if (adapters.content == Adapters::Content::kParts && is_string) {
    message.set("content", text_parts(*text));
  }
}

/// Moves the system messages at the start into the first user message.
void fold_system(AdaptedConversation& conversation) {
  std::vector<AdaptedMessage>& messages = conversation.messages;
  std::vector<std::pair<size_t, std::string>> folded;
  while (folded.size() < messages.size()) {
    const AdaptedMessage& message = messages[folded.size()];
    if (!has_role(message.message, "system") && !has_role(message.message, "developer")) break;
    const Json* content = message.message.find("content");
    const auto text = content == nullptr ? std::nullopt : text_of(*content);
    if (!text) return;
    folded.emplace_back(message.index, *text);
  }
  if (folded.empty()) return;
  messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(folded.size()));
  if (messages.empty() || !has_role(messages.front().message, "user")) {
    AdaptedMessage user;
    user.index = folded.back().first;
    user.message.set("role", "user");
    user.message.set("content", "");
    messages.insert(messages.begin(), std::move(user));
  }
  messages.front().folded = std::move(folded);
  conversation.notes.push_back(
      "The template has no system role: the system message stands at the start of the first user "
      "message.");
}

}  // namespace

AdaptedConversation unadapted(const Json& messages) {
  AdaptedConversation conversation;
  for (const Json& message : *messages.as_array()) {
    conversation.messages.push_back({message, conversation.messages.size(), {}});
  }
  return conversation;
}

AdaptedConversation adapt(const Json& messages, const Adapters& adapters) {
  AdaptedConversation conversation = unadapted(messages);
  for (AdaptedMessage& adapted : conversation.messages) {
    if (has_tool_calls(adapted.message)) adapt_tool_calls(adapted.message, adapters);
    adapt_content(adapted.message, adapters);
  }
  if (adapters.system == Adapters::System::kFoldIntoUser) fold_system(conversation);
  conversation.keeps_null_content = adapters.null_content == Adapters::NullContent::kNull;
  return conversation;
}

}  // namespace quire::context
