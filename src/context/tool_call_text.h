// tool_call_text.h: reads the text of one or several tool calls, as models write them.
//
// Each function takes the text between a format's markers and returns the calls, or nothing if it
// is not what the format says: then it was no call. Arguments keep the model's own JSON text, so
// that no number loses a digit. Pure functions; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::context {

struct ToolCall {
  std::string name;
  std::string arguments;  // the text of a JSON object
  std::string id;         // as the model wrote it; most write none
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

using ToolCalls = std::optional<std::vector<ToolCall>>;

/// Finds where a JSON object or array ends, one character at a time.
class JsonExtent {
 public:
  /// Takes the next character. True once the value that began with the first is complete.
  bool feed(char c);
  bool in_string() const { return in_string_; }

 private:
  int32_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

/// Bytes of the JSON object or array at the start of `text`; nothing while it is incomplete.
std::optional<size_t> json_length(std::string_view text);

/// {"name" or "tool_name", "arguments" or "parameters", "id"?}, also inside "function"; or an
/// array.
ToolCalls read_json_calls(std::string_view text);

/// What stands between <tool_call> and </tool_call>, in any of the three dialects.
ToolCalls read_tagged_call(std::string_view text);

/// What follows <|python_tag|>.
ToolCalls read_python_tag(std::string_view text);

/// What follows [TOOL_CALLS], up to the end of its JSON.
ToolCalls read_mistral_calls(std::string_view text);

/// What stands between DeepSeek's tool▁call▁begin and tool▁call▁end.
ToolCalls read_deepseek_call(std::string_view text);

}  // namespace quire::context
