// chat_params.h: messages, tools and what the answer may look like, as OpenAI's chat API names
// them.
//
// What comes out is what chat templates expect: text parts joined, "developer" as "system". Images
// and audio are refused by the name of their part. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "formats/json.h"
#include "server/fields.h"

namespace quire::server {

struct ToolChoice {
  enum class Kind : uint8_t { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // of kNamed
};

struct ResponseFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  formats::Json schema;  // of kJsonSchema
  std::string param;     // where it stood, for errors
};

struct ChatParams {
  formats::Json messages;  // array, not empty
  formats::Json tools;     // array, or null
  formats::Json kwargs;    // object, or null
  ToolChoice tool_choice;
  ResponseFormat format;
  bool parallel_tool_calls = true;
};

/// Of /v1/chat/completions; the Responses and Ollama routes make the same from theirs.
ChatParams read_chat(Fields& fields);

/// One message checked and in the form that templates expect; `param` names it in errors.
formats::Json read_message(Fields& fields, const formats::Json& message, const std::string& param);
/// `tools`, checked; null if there are none.
formats::Json read_tools(Fields& fields);
/// `tool_choice` against the tools that there are.
ToolChoice read_tool_choice(Fields& fields, const formats::Json& tools);
/// {"type": "json_schema", "json_schema": {"schema": {...}}} and its kin at `name`.
ResponseFormat read_response_format(Fields& fields, std::string_view name);
/// `chat_template_kwargs` and `reasoning_effort`, as variables for the template.
formats::Json read_template_kwargs(Fields& fields);

}  // namespace quire::server
