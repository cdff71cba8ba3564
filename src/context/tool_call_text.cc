#include "context/tool_call_text.h"

#include <algorithm>
#include <utility>

#include "formats/json.h"

namespace quire::context {
namespace {

using formats::Json;

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Cuts and returns what stands before `end`, which goes too; nothing if it is not there.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return before;
}

/// Bytes of any JSON value at the start of `text`, which is well-formed JSON from there on.
size_t value_length(std::string_view text) {
  if (text.starts_with('{') || text.starts_with('[')) return json_length(text).value_or(0);
  if (!text.starts_with('"')) return std::min(text.find_first_of(",}] \t\r\n"), text.size());
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return 0;
}

/// The text of the last member of that name in a well-formed object.
std::optional<std::string_view> member_text(std::string_view object, std::string_view key) {
  std::optional<std::string_view> found;
  size_t at = object.find('{') + 1;
  while (true) {
    at = object.find_first_not_of(" \t\r\n,", at);
    if (at == std::string_view::npos || object[at] != '"') return found;
    const size_t key_length = value_length(object.substr(at));
    const std::string_view name = object.substr(at + 1, key_length - 2);
    at = object.find_first_not_of(" \t\r\n:", at + key_length);
    if (at == std::string_view::npos) return found;
    const size_t length = value_length(object.substr(at));
    if (length == 0) return found;
    if (name == key) found = object.substr(at, length);
    at += length;
  }
}

std::string string_member(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_string() ? *value->as_string() : std::string();
}

bool is_object_text(std::string_view text) {
  const auto json = Json::parse(text, "arguments");
  return json.ok() && json->is_object();
}

/// The text of an object of arguments; some models write it as a string that holds it.
std::optional<std::string> arguments_of(std::string_view object, const Json& json) {
  for (const char* key : {"arguments", "parameters"}) {
    const Json* value = json.find(key);
    if (value == nullptr) continue;
    if (value->is_object()) {
      if (const auto text = member_text(object, key)) return std::string(*text);
    }
    if (value->is_string() && is_object_text(*value->as_string())) return *value->as_string();
    if (value->is_null()) return "{}";
    return std::nullopt;
  }
  return "{}";
}

std::optional<ToolCall> read_json_call(std::string_view object) {
  const auto json = Json::parse(object, "tool call");
  if (!json.ok() || !json->is_object()) return std::nullopt;
  if (const Json* function = json->find("function"); function != nullptr && function->is_object()) {
    const auto inner = member_text(object, "function");
    auto call = inner ? read_json_call(*inner) : std::nullopt;
    if (call && call->id.empty()) call->id = string_member(*json, "id");
    return call;
  }
  ToolCall call{string_member(*json, "name"), {}, string_member(*json, "id")};
  if (call.name.empty()) call.name = string_member(*json, "tool_name");
  auto arguments = arguments_of(object, *json);
  if (call.name.empty() || !arguments) return std::nullopt;
  call.arguments = *std::move(arguments);
  return call;
}

/// A value that a model wrote bare: JSON if it is any but a string, else the text itself.
void set_bare(Json& arguments, std::string_view key, std::string_view value) {
  const auto json = Json::parse(value, "argument");
  arguments.set(key, json.ok() && !json->is_string() ? *json : Json(value));
}

/// "<function=NAME><parameter=KEY>VALUE</parameter>...</function>"
std::optional<ToolCall> read_function_tags(std::string_view text) {
  text.remove_prefix(std::string_view("<function=").size());
  const auto function = take_until(text, ">");
  if (!function || trimmed(*function).empty()) return std::nullopt;
  Json arguments{Json::Object{}};
  while (take_until(text, "<parameter=")) {
    const auto key = take_until(text, ">");
    const auto value = key ? take_until(text, "</parameter>") : std::nullopt;
    if (!value) return std::nullopt;
    std::string_view bare = *value;  // on lines of its own
    if (bare.starts_with('\n')) bare.remove_prefix(1);
    if (bare.ends_with('\n')) bare.remove_suffix(1);
    set_bare(arguments, trimmed(*key), bare);
  }
  return ToolCall{std::string(trimmed(*function)), arguments.dump(), {}};
}

/// "NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>..."
std::optional<ToolCall> read_argument_tags(std::string_view text) {
  const std::string_view name = trimmed(text.substr(0, text.find("<arg_key>")));
  const bool is_name = !name.empty() && name.find_first_of(" \t\r\n<>{}\"") == name.npos;
  if (!is_name) return std::nullopt;
  Json arguments{Json::Object{}};
  while (take_until(text, "<arg_key>")) {
    const auto key = take_until(text, "</arg_key>");
    if (!key || !take_until(text, "<arg_value>")) return std::nullopt;
    const auto value = take_until(text, "</arg_value>");
    if (!value) return std::nullopt;
    set_bare(arguments, trimmed(*key), *value);
  }
  return ToolCall{std::string(name), arguments.dump(), {}};
}

ToolCalls one(std::optional<ToolCall> call) {
  if (!call) return std::nullopt;
  return std::vector<ToolCall>{*std::move(call)};
}

/// "NAME.call(KEY="VALUE", KEY=3)": Llama 3.1's call of a built-in tool.
std::optional<ToolCall> read_builtin_call(std::string_view text) {
  const auto function = take_until(text, ".call(");
  const bool is_name = function && !function->empty() &&
                       function->find_first_of(" \t\r\n(\"'") == std::string_view::npos;
  if (!is_name || !text.ends_with(')')) return std::nullopt;
  text.remove_suffix(1);
  Json arguments{Json::Object{}};
  while (!(text = trimmed(text)).empty()) {
    const auto key = take_until(text, "=");
    const size_t length = key ? value_length(text) : 0;
    if (length == 0) return std::nullopt;
    const auto value = Json::parse(text.substr(0, length), "argument");
    if (!value.ok()) return std::nullopt;
    arguments.set(trimmed(*key), *value);
    text = trimmed(text.substr(length));
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  return ToolCall{std::string(*function), arguments.dump(), {}};
}

}  // namespace

bool JsonExtent::feed(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  return depth_ <= 0;
}

std::optional<size_t> json_length(std::string_view text) {
  if (!text.starts_with('{') && !text.starts_with('[')) return std::nullopt;
  JsonExtent extent;
  for (size_t i = 0; i < text.size(); ++i) {
    if (extent.feed(text[i])) return i + 1;
  }
  return std::nullopt;
}

ToolCalls read_json_calls(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('[')) return one(read_json_call(text));
  if (!Json::parse(text, "tool calls").ok()) return std::nullopt;
  std::vector<ToolCall> calls;
  size_t at = text.find_first_not_of(" \t\r\n,", 1);
  while (at != std::string_view::npos && text[at] == '{') {
    const auto length = json_length(text.substr(at));
    auto call = length ? read_json_call(text.substr(at, *length)) : std::nullopt;
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
    at = text.find_first_not_of(" \t\r\n,", at + *length);
  }
  const bool at_end = at != std::string_view::npos && text[at] == ']';
  return at_end ? ToolCalls(std::move(calls)) : std::nullopt;
}

ToolCalls read_tagged_call(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('{') || text.starts_with('[')) return read_json_calls(text);
  return one(text.starts_with("<function=") ? read_function_tags(text) : read_argument_tags(text));
}

ToolCalls read_python_tag(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  if (auto calls = read_json_calls(text)) return calls;
  if (auto call = read_builtin_call(text)) return one(std::move(call));
  Json code;
  code.set("code", text);
  return one(ToolCall{"python", code.dump(), {}});
}

ToolCalls read_mistral_calls(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[') || text.starts_with('{')) return read_json_calls(text);
  auto name = take_until(text, "[ARGS]");
  if (!name) {
    const size_t brace = text.find('{');
    name = text.substr(0, brace);
    text.remove_prefix(std::min(brace, text.size()));
  }
  std::string_view rest = *name;
  std::string_view id;
  if (const auto before = take_until(rest, "[CALL_ID]")) {
    name = before;
    id = trimmed(rest);
  }
  if (trimmed(*name).empty() || !is_object_text(trimmed(text))) return std::nullopt;
  return one(ToolCall{std::string(trimmed(*name)), std::string(trimmed(text)), std::string(id)});
}

ToolCalls read_deepseek_call(std::string_view text) {
  const auto before = take_until(text, "<｜tool▁sep｜>");
  if (!before) return std::nullopt;
  std::string_view name = trimmed(*before);
  const size_t block = text.find("```json");
  if (block != std::string_view::npos) {
    name = trimmed(text.substr(0, block));
    text.remove_prefix(block + std::string_view("```json").size());
    text = text.substr(0, text.rfind("```"));
  }
  text = trimmed(text);
  if (name.empty() || !is_object_text(text)) return std::nullopt;
  return one(ToolCall{std::string(name), std::string(text), {}});
}

}  // namespace quire::context
