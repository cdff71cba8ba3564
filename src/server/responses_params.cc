#include "server/responses_params.h"

#include <fmt/format.h>

#include "formats/printable.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr size_t kMostItems = 16384;
constexpr size_t kMostTools = 128;
constexpr size_t kMostTextBytes = 8 << 20;

void fail_at(Fields& fields, const std::string& param, std::string_view message) {
  fields.fail(bad_param(param, fmt::format("Invalid '{}': {}", param, message)));
}

std::string text_of(const Json& item, std::string_view name) {
  const Json* value = item.find(name);
  return value != nullptr && value->is_string() ? *value->as_string() : "";
}

/// A call that the model made: part of the assistant's message, with others beside it.
void add_call(Json& messages, const Json& item) {
  Json function;
  function.set("name", text_of(item, "name"));
  function.set("arguments", text_of(item, "arguments"));
  Json call;
  call.set("id", text_of(item, "call_id"));
  call.set("type", "function");
  call.set("function", std::move(function));
  Json::Array& all = *messages.as_array();
  const bool joins = !all.empty() && text_of(all.back(), "role") == "assistant";
  if (!joins) {
    Json message;
    message.set("role", "assistant");
    message.set("content", Json());
    all.push_back(std::move(message));
  }
  const Json* calls = all.back().find("tool_calls");
  Json joined = calls != nullptr ? *calls : Json(Json::Array{});
  joined.push_back(std::move(call));
  all.back().set("tool_calls", std::move(joined));
}

void add_item(Fields& fields, Json& messages, const Json& item, const std::string& param) {
  const std::string type = item.find("type") != nullptr ? text_of(item, "type") : "message";
  if (type == "message") {
    messages.push_back(read_message(fields, item, param));
  } else if (type == "function_call") {
    if (text_of(item, "name").empty()) return fail_at(fields, param + ".name", "it is missing.");
    add_call(messages, item);
  } else if (type == "function_call_output") {
    Json message;
    message.set("role", "tool");
    message.set("tool_call_id", text_of(item, "call_id"));
    const Json* output = item.find("output");
    message.set("content", output != nullptr ? *output : Json());
    messages.push_back(read_message(fields, message, param));
  } else if (type != "reasoning") {  // earlier reasoning is not shown to the model again
    fail_at(fields, param + ".type",
            fmt::format("items of type '{}' are not supported.", formats::printable(type)));
  }
}

Json read_input(Fields& fields) {
  Json messages(Json::Array{});
  const auto add_text = [&](std::string_view role, const std::string& text) {
    Json message;
    message.set("role", role);
    message.set("content", text);
    messages.push_back(std::move(message));
  };
  if (const auto text = fields.text("instructions", kMostTextBytes)) add_text("system", *text);
  const Json* input = fields.find("input");
  if (input == nullptr) {
    fields.fail("input", "it is missing.");
  } else if (const std::string* text = input->as_string()) {
    add_text("user", *text);
  } else if (const Json* items = fields.array("input", kMostItems)) {
    const Json::Array& all = *items->as_array();
    if (all.empty()) fields.fail("input", "it must hold at least one item.");
    for (size_t i = 0; i < all.size() && fields.ok(); ++i) {
      add_item(fields, messages, all[i], fmt::format("input[{}]", i));
    }
  }
  return messages;
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

}  // namespace

ResponsesRequest read_responses(Fields& fields, const GenerationDefaults& defaults) {
  ResponsesRequest request;
  fields.refuse({"previous_response_id", "conversation", "prompt"},
                "nothing is stored here: send the whole conversation in 'input'.");
  if (fields.boolean("background").value_or(false)) {
    fields.fail("background", "it is not supported.");
  }
  fields.integer("top_logprobs", 0, 0);
  request.chat.messages = read_input(fields);
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

}  // namespace quire::server
