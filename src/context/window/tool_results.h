// tool_results.h: which call each tool result answers.
//
// Pure functions on messages in OpenAI's format; a result without an id answers the calls before it
// in order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "formats/json.h"

namespace quire::context::window {

struct ToolResult {
  int32_t message = 0;
  std::string tool;       // "" if no call is known for it
  std::string arguments;  // as JSON text
  friend bool operator==(const ToolResult&, const ToolResult&) = default;
};

/// For every message of role tool, function or ipython, in order.
std::vector<ToolResult> tool_results(const formats::Json::Array& messages);

/// Tool results without a call before them: what a plan must never leave behind.
std::vector<int32_t> orphaned_results(const formats::Json::Array& messages);

}  // namespace quire::context::window
