// answer_format.h: how a model writes what is not its answer: its reasoning and its calls of tools.
//
// Found in the chat template: a model was trained on what its template renders for such messages.
// Plain values and pure functions; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace quire::context {

enum class ToolCallFormat : uint8_t {
  kNone,
  /// Hermes, Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  /// Qwen3-Coder: <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
  /// GLM:          <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>
  kTagged,
  /// {"name": ..., "parameters": {...}} at the start of the answer, or <|python_tag|> before
  /// NAME.call(KEY="VALUE"), such an object or Python code.
  kLlama3,
  /// [TOOL_CALLS][{"name": ..., "arguments": {...}}], or [TOOL_CALLS]NAME[ARGS]{...} for each call.
  kMistral,
  /// Between tool▁call▁begin and tool▁call▁end: function, tool▁sep, NAME and a block ```json, or
  /// (V3.1) NAME, tool▁sep and the arguments.
  kDeepSeek,
  /// functools[{"name": ..., "arguments": {...}}]
  kFunctools,
  /// Action: ```json [{"tool_name": ..., "parameters": {...}}] ```
  kCommandR,
  /// gpt-oss: messages with a channel and a recipient, to=functions.NAME.
  kHarmony,
};

struct AnswerFormat {
  /// What opens and closes reasoning.
  std::optional<std::pair<std::string, std::string>> reasoning_tags;
  ToolCallFormat tool_calls = ToolCallFormat::kNone;
};

/// "tagged", "llama 3", ...: for people.
std::string_view name(ToolCallFormat format);

/// The format in which `rendered`, the template's text of an assistant's call of `tool_name`,
/// writes it; else the one that the template's source speaks of.
ToolCallFormat find_tool_call_format(std::string_view rendered, std::string_view tool_name,
                                     std::string_view source);

/// The texts that structure an answer in this format. As control tokens they must be decoded,
/// though they are no text for the user.
std::span<const std::string_view> markers(ToolCallFormat format);

}  // namespace quire::context
