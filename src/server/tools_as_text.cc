#include "server/tools_as_text.h"

#include <string>

namespace quire::server {
namespace {

using formats::Json;

std::string text_of(const Json& message, std::string_view name) {
  const Json* value = message.find(name);
  return value != nullptr && value->is_string() ? *value->as_string() : "";
}

std::string describe(const Json& tools) {
  std::string text = "You can call functions. Their definitions, as JSON:\n<tools>\n";
  for (const Json& tool : *tools.as_array()) text += tool.dump() + "\n";
  text +=
      "</tools>\nTo call one, answer with its name and arguments as JSON between tags:\n"
      "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>";
  return text;
}

std::string call_text(const Json& call) {
  const Json* function = call.find("function");
  if (function == nullptr) return "";
  const Json* given = function->find("arguments");
  const std::string* text = given != nullptr ? given->as_string() : nullptr;
  // As JSON inside the JSON, not as a string of it.
  const std::string arguments = text != nullptr ? *text : given != nullptr ? given->dump() : "{}";
  return "<tool_call>\n{\"name\": " + Json(text_of(*function, "name")).dump() +
         ", \"arguments\": " + (arguments.empty() ? "{}" : arguments) + "}\n</tool_call>";
}

Json message(std::string_view role, std::string content) {
  Json json;
  json.set("role", role);
  json.set("content", std::move(content));
  return json;
}

Json as_text(const Json& original) {
  if (text_of(original, "role") == "tool") {
    return message("user",
                   "<tool_response>\n" + text_of(original, "content") + "\n</tool_response>");
  }
  const Json* calls = original.find("tool_calls");
  if (calls == nullptr || !calls->is_array()) return original;
  std::string content = text_of(original, "content");
  for (const Json& call : *calls->as_array()) {
    content += (content.empty() ? "" : "\n") + call_text(call);
  }
  return message("assistant", std::move(content));
}

}  // namespace

Json with_tools_as_text(const Json& messages, const Json& tools) {
  Json out(Json::Array{});
  const Json::Array& all = *messages.as_array();
  const bool has_system = !all.empty() && text_of(all.front(), "role") == "system";
  if (tools.is_array()) {
    const std::string own = has_system ? text_of(all.front(), "content") + "\n\n" : "";
    out.push_back(message("system", own + describe(tools)));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0 && has_system && tools.is_array()) continue;
    out.push_back(as_text(all[i]));
  }
  return out;
}

}  // namespace quire::server
