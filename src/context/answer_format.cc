#include "context/answer_format.h"

#include <array>

namespace quire::context {
namespace {

constexpr auto kTaggedMarkers = std::to_array<std::string_view>(
    {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"});
constexpr auto kLlama3Markers = std::to_array<std::string_view>({"<|python_tag|>"});
constexpr auto kMistralMarkers =
    std::to_array<std::string_view>({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"});
constexpr auto kDeepSeekMarkers = std::to_array<std::string_view>(
    {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
     "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"});
constexpr auto kHarmonyMarkers =
    std::to_array<std::string_view>({"<|start|>", "<|end|>", "<|message|>", "<|channel|>",
                                     "<|constrain|>", "<|call|>", "<|return|>"});

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Of the call as it stands in a rendered prompt, or of a source that mentions it.
ToolCallFormat format_by_marker(std::string_view text) {
  if (contains(text, "[TOOL_CALLS]")) return ToolCallFormat::kMistral;
  if (contains(text, "<｜tool▁call▁begin｜>")) return ToolCallFormat::kDeepSeek;
  if (contains(text, "<tool_call>")) return ToolCallFormat::kTagged;
  if (contains(text, "functools[")) return ToolCallFormat::kFunctools;
  if (contains(text, "<|channel|>commentary")) return ToolCallFormat::kHarmony;
  if (contains(text, "Action:")) return ToolCallFormat::kCommandR;
  if (contains(text, "<|python_tag|>")) return ToolCallFormat::kLlama3;
  return ToolCallFormat::kNone;
}

}  // namespace

std::string_view name(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kNone:
      return "none";
    case ToolCallFormat::kTagged:
      return "tagged";
    case ToolCallFormat::kLlama3:
      return "llama 3";
    case ToolCallFormat::kMistral:
      return "mistral";
    case ToolCallFormat::kDeepSeek:
      return "deepseek";
    case ToolCallFormat::kFunctools:
      return "functools";
    case ToolCallFormat::kCommandR:
      return "command-r";
    case ToolCallFormat::kHarmony:
      return "harmony";
  }
  return "none";
}

ToolCallFormat find_tool_call_format(std::string_view rendered, std::string_view tool_name,
                                     std::string_view source) {
  const ToolCallFormat marked = format_by_marker(rendered);
  if (marked != ToolCallFormat::kNone) return marked;
  const size_t at = rendered.find(tool_name);
  const bool bare_object = at != std::string_view::npos && at >= 10 &&
                           contains(rendered.substr(at - 10, 10), "\"name\"") &&
                           contains(rendered.substr(at), "\"parameters\"");
  return bare_object ? ToolCallFormat::kLlama3 : format_by_marker(source);
}

std::span<const std::string_view> markers(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kTagged:
      return kTaggedMarkers;
    case ToolCallFormat::kLlama3:
      return kLlama3Markers;
    case ToolCallFormat::kMistral:
      return kMistralMarkers;
    case ToolCallFormat::kDeepSeek:
      return kDeepSeekMarkers;
    case ToolCallFormat::kHarmony:
      return kHarmonyMarkers;
    case ToolCallFormat::kNone:
    case ToolCallFormat::kFunctools:
    case ToolCallFormat::kCommandR:
      break;
  }
  return {};
}

}  // namespace quire::context
