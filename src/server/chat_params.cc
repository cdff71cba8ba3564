#include "server/chat_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/printable.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr size_t kMostMessages = 16384;
constexpr size_t kMostTools = 128;
constexpr size_t kMostNameBytes = 256;
constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

bool is_function_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, is_plain);
}

void fail_at(Fields& fields, std::string param, std::string_view message) {
  std::string sentence = fmt::format("Invalid '{}': {}", param, message);
  fields.fail(bad_param(std::move(param), std::move(sentence)));
}

/// The text of one typed part.
std::string part_text(Fields& fields, const Json& part, const std::string& param) {
  if (const std::string* text = part.as_string()) return *text;
  const Json* type = part.find("type");
  if (type == nullptr || !type->is_string()) {
    fail_at(fields, param, "a part must be an object with a 'type'.");
    return {};
  }
  const std::string& kind = *type->as_string();
  const bool is_text = kind == "text" || kind == "input_text" || kind == "output_text";
  const Json* text = part.find(is_text ? "text" : kind == "refusal" ? "refusal" : "");
  if (text != nullptr && text->is_string()) return *text->as_string();
  if (is_text) {
    fail_at(fields, param + ".text", "it must be a string.");
  } else {
    fail_at(fields, param,
            fmt::format("parts of type '{}' are not supported: this model reads text only.",
                        formats::printable(kind)));
  }
  return {};
}

/// A string, null, or the text of the parts, one a line.
Json read_content(Fields& fields, const Json& content, const std::string& param) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) {
    fail_at(fields, param,
            fmt::format("it must be a string or an array of parts, not {}.", kind_of(content)));
    return Json();
  }
  std::string joined;
  const Json::Array& parts = *content.as_array();
  for (size_t i = 0; i < parts.size() && fields.ok(); ++i) {
    if (i > 0) joined += '\n';
    joined += part_text(fields, parts[i], fmt::format("{}[{}]", param, i));
  }
  return Json(std::move(joined));
}

void check_tool_calls(Fields& fields, const Json& calls, const std::string& param) {
  if (!calls.is_array()) return fail_at(fields, param, "it must be an array.");
  const Json::Array& all = *calls.as_array();
  for (size_t i = 0; i < all.size() && fields.ok(); ++i) {
    const std::string each = fmt::format("{}[{}].function", param, i);
    const Json* function = all[i].find("function");
    if (function == nullptr || !function->is_object()) {
      return fail_at(fields, each, "it must be an object.");
    }
    const Json* name = function->find("name");
    if (name == nullptr || !name->is_string()) {
      return fail_at(fields, each + ".name", "it must be a string.");
    }
    const Json* arguments = function->find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object() &&
        !arguments->is_null()) {
      return fail_at(fields, each + ".arguments", "it must be a string of JSON.");
    }
  }
}

bool names_tool(const Json& tools, std::string_view name) {
  if (!tools.is_array()) return false;
  return std::ranges::any_of(*tools.as_array(), [&](const Json& tool) {
    return *tool.find("function")->find("name")->as_string() == name;
  });
}

void check_tool(Fields& fields, const Json& tool, const std::string& param) {
  const Json* type = tool.find("type");
  if (type == nullptr || !type->is_string() || *type->as_string() != "function") {
    return fail_at(fields, param + ".type", "only tools of type 'function' are supported.");
  }
  const Json* function = tool.find("function");
  if (function == nullptr || !function->is_object()) {
    return fail_at(fields, param + ".function", "it must be an object.");
  }
  const Json* name = function->find("name");
  if (name == nullptr || !name->is_string() || !is_function_name(*name->as_string())) {
    return fail_at(
        fields, param + ".function.name",
        fmt::format("it must be 1 to {} letters, digits, '_', '-' or '.'.", kMostNameBytes));
  }
  const Json* description = function->find("description");
  if (description != nullptr && !description->is_string() && !description->is_null()) {
    return fail_at(fields, param + ".function.description", "it must be a string.");
  }
  const Json* parameters = function->find("parameters");
  if (parameters != nullptr && !parameters->is_object() && !parameters->is_null()) {
    fail_at(fields, param + ".function.parameters", "it must be a JSON schema, an object.");
  }
}

}  // namespace

Json read_message(Fields& fields, const Json& message, const std::string& param) {
  if (!message.is_object()) {
    fail_at(fields, param, fmt::format("it must be an object, not {}.", kind_of(message)));
    return Json();
  }
  const Json* role = message.find("role");
  if (role == nullptr || !role->is_string() ||
      std::ranges::count(kRoles, *role->as_string()) == 0) {
    fail_at(fields, param + ".role", fmt::format("it must be one of {}.", fmt::join(kRoles, ", ")));
    return Json();
  }
  const Json* calls = message.find("tool_calls");
  const bool has_calls = calls != nullptr && !calls->is_null();
  if (has_calls) check_tool_calls(fields, *calls, param + ".tool_calls");
  const Json* given = message.find("content");
  const bool may_lack_content = *role->as_string() == "assistant";
  if ((given == nullptr || given->is_null()) && !may_lack_content) {
    fail_at(fields, param + ".content", "it is missing.");
    return Json();
  }
  Json out = message;
  if (*role->as_string() == "developer") out.set("role", "system");
  out.set("content", given == nullptr ? Json() : read_content(fields, *given, param + ".content"));
  return out;
}

Json read_tools(Fields& fields) {
  const Json* tools = fields.array("tools", kMostTools);
  if (tools == nullptr || tools->as_array()->empty()) return Json();
  const Json::Array& all = *tools->as_array();
  for (size_t i = 0; i < all.size() && fields.ok(); ++i) {
    check_tool(fields, all[i], fmt::format("tools[{}]", i));
  }
  return fields.ok() ? *tools : Json();
}

ToolChoice read_tool_choice(Fields& fields, const Json& tools) {
  using Kind = ToolChoice::Kind;
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return {tools.is_array() ? Kind::kAuto : Kind::kNone, ""};
  if (const std::string* word = choice->as_string()) {
    if (*word == "none") return {Kind::kNone, ""};
    if (*word == "auto") return {tools.is_array() ? Kind::kAuto : Kind::kNone, ""};
    if (*word != "required") {
      fields.fail("tool_choice", "it must be none, auto, required or name a function.");
    } else if (!tools.is_array()) {
      fields.fail("tool_choice", "a call is required, but there are no 'tools'.");
    }
    return {Kind::kRequired, ""};
  }
  // {"type": "function", "function": {"name": ...}}; the Responses API puts the name beside the
  // type.
  const Json* function = choice->find("function");
  const Json* name = function != nullptr ? function->find("name") : choice->find("name");
  if (name == nullptr || !name->is_string()) {
    fields.fail("tool_choice", "it must be none, auto, required or name a function.");
    return {};
  }
  if (!names_tool(tools, *name->as_string())) {
    fields.fail("tool_choice", fmt::format("there is no tool named '{}' in 'tools'.",
                                           formats::printable(*name->as_string())));
  }
  return {Kind::kNamed, *name->as_string()};
}

ResponseFormat read_response_format(Fields& fields, std::string_view name) {
  ResponseFormat format;
  format.param = name;
  const Json* given = fields.object(name);
  if (given == nullptr) return format;
  const Json* type = given->find("type");
  const std::string kind = type != nullptr && type->is_string() ? *type->as_string() : "";
  if (kind == "text") return format;
  if (kind == "json_object") {
    format.kind = ResponseFormat::Kind::kJsonObject;
    return format;
  }
  if (kind != "json_schema") {
    fields.fail(name, "its type must be text, json_object or json_schema.");
    return format;
  }
  format.kind = ResponseFormat::Kind::kJsonSchema;
  const Json* holder = given->find("json_schema");
  const Json* schema = (holder != nullptr ? *holder : *given).find("schema");
  if (schema == nullptr || !schema->is_object()) {
    fields.fail(std::string(name) + (holder != nullptr ? ".json_schema.schema" : ".schema"),
                "it must be a JSON schema, an object.");
  } else {
    format.schema = *schema;
  }
  return format;
}

Json read_template_kwargs(Fields& fields) {
  Json kwargs;
  if (const Json* given = fields.object("chat_template_kwargs")) kwargs = *given;
  const auto effort =
      fields.choice("reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh"});
  if (effort && *effort == "none") {
    kwargs.set("enable_thinking", false);
  } else if (effort) {
    kwargs.set("reasoning_effort", *effort);
  }
  return kwargs;
}

ChatParams read_chat(Fields& fields) {
  ChatParams chat;
  fields.refuse({"audio", "web_search_options", "functions", "function_call"},
                "it is not supported.");
  if (const Json* modalities = fields.array("modalities", 8)) {
    for (const Json& each : *modalities->as_array()) {
      if (!each.is_string() || *each.as_string() != "text") {
        fields.fail("modalities", "only text is supported.");
      }
    }
  }
  if (!fields.has("messages")) fields.fail("messages", "it is missing.");
  if (const Json* messages = fields.array("messages", kMostMessages)) {
    const Json::Array& all = *messages->as_array();
    if (all.empty()) fields.fail("messages", "it must hold at least one message.");
    chat.messages = Json(Json::Array{});
    for (size_t i = 0; i < all.size() && fields.ok(); ++i) {
      chat.messages.push_back(read_message(fields, all[i], fmt::format("messages[{}]", i)));
    }
  }
  chat.tools = read_tools(fields);
  chat.tool_choice = read_tool_choice(fields, chat.tools);
  chat.format = read_response_format(fields, "response_format");
  chat.kwargs = read_template_kwargs(fields);
  chat.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  return chat;
}

}  // namespace quire::server
