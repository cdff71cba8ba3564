#include "server/responses_params.h"

#include <fmt/format.h>

#include "formats/printable.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr size_t kMostTools = 128;
constexpr size_t kMostTextBytes = 8 << 20;
constexpr size_t kMostIdBytes = 256;
constexpr const char* kNoStore =
    "this server runs with --no-store: send the whole conversation in 'input'.";

std::string text_of(const Json& item, std::string_view name) {
  const Json* value = item.find(name);
  return value != nullptr && value->is_string() ? *value->as_string() : "";
}

/// {type, name, parameters} becomes the chat route's {type, function: {...}}.
Json read_flat_tools(Fields& fields) {
  const Json* tools = fields.array("tools", kMostTools);
  if (tools == nullptr || tools->as_array()->empty()) return Json();
  Json nested(Json::Array{});
  for (const Json& tool : *tools->as_array()) {
    if (!tool.is_object()) {
      nested.push_back(tool);  // refused below
      continue;
    }
    Json function;
    for (const auto& [name, value] : *tool.as_object()) {
      if (name != "type" && name != "strict") function.set(name, value);
    }
    Json out;
    out.set("type", text_of(tool, "type"));
    out.set("function", std::move(function));
    nested.push_back(std::move(out));
  }
  Json holder;
  holder.set("tools", std::move(nested));
  Fields inner(holder);
  Json checked = read_tools(inner);
  if (inner.error()) fields.fail(*inner.error());
  return checked;
}

ResponseFormat read_text_format(Fields& fields) {
  const Json* text = fields.object("text");
  if (text == nullptr) return {};
  Fields inner(*text, "text.");
  ResponseFormat format = read_response_format(inner, "format");
  format.param = "text.format";
  if (inner.error()) fields.fail(*inner.error());
  return format;
}

Json read_reasoning(Fields& fields) {
  const Json* reasoning = fields.object("reasoning");
  Json holder(Json::Object{});
  if (reasoning != nullptr && reasoning->find("effort") != nullptr) {
    holder.set("reasoning_effort", *reasoning->find("effort"));
  }
  Fields inner(holder);
  Json kwargs = read_template_kwargs(inner);
  if (inner.error())
    fields.fail("reasoning.effort",
                "it must be one of none, minimal, low, "
                "medium, high, xhigh.");
  return kwargs;
}

/// `conversation`: an id, or {id}.
std::string read_conversation(Fields& fields) {
  const Json* given = fields.find("conversation");
  if (given == nullptr) return "";
  const Json* id = given->is_object() ? given->find("id") : given;
  if (id != nullptr && id->is_string() && !id->as_string()->empty()) return *id->as_string();
  fields.fail("conversation", "it must be a conversation's id, or an object with one.");
  return "";
}

Continuation read_continuation(Fields& fields, Keeps keeps) {
  Continuation out;
  out.previous_response = fields.text("previous_response_id", kMostIdBytes).value_or("");
  out.conversation = read_conversation(fields);
  if (!out.previous_response.empty() && !out.conversation.empty()) {
    fields.fail("previous_response_id", "it and 'conversation' exclude each other.");
  }
  const bool can_store = keeps == Keeps::kConversations;
  out.store = fields.boolean("store").value_or(can_store);
  if (can_store) return out;
  if (out.store) fields.fail("store", kNoStore);
  fields.refuse({"previous_response_id", "conversation"}, kNoStore);
  return out;
}

}  // namespace

ResponsesRequest read_responses(Fields& fields, const GenerationDefaults& defaults, Keeps keeps) {
  ResponsesRequest request;
  fields.refuse({"prompt"}, "it is not supported: send the conversation in 'input'.");
  if (fields.boolean("background").value_or(false)) {
    fields.fail("background", "it is not supported.");
  }
  fields.integer("top_logprobs", 0, 0);
  request.metadata = read_metadata(fields);
  request.continuation = read_continuation(fields, keeps);
  request.instructions = fields.text("instructions", kMostTextBytes);
  request.input = read_items(fields, "input");
  read_conversation_so_far(fields, request, {});
  request.chat.tools = read_flat_tools(fields);
  request.chat.tool_choice = read_tool_choice(fields, request.chat.tools);
  request.chat.format = read_text_format(fields);
  request.chat.kwargs = read_reasoning(fields);
  request.chat.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  request.params = read_generation(fields, defaults);
  request.params.choices = 1;
  const int64_t most = defaults.max_output.value_or(int64_t{1} << 31);
  if (const auto tokens = fields.integer("max_output_tokens", 1, most)) {
    request.params.options.max_tokens = *tokens;
  }
  return request;
}

void read_conversation_so_far(Fields& fields, ResponsesRequest& request,
                              std::span<const Json> history) {
  Json messages(Json::Array{});
  if (request.instructions) messages.push_back(system_message(*request.instructions));
  add_messages(fields, messages, history, "conversation");
  add_messages(fields, messages, request.input, "input");
  request.chat.messages = std::move(messages);
}

}  // namespace quire::server
