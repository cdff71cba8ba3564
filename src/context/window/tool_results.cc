#include "context/window/tool_results.h"

#include <algorithm>
#include <optional>

#include "context/window/request.h"

namespace quire::context::window {
namespace {

using formats::Json;

struct Call {
  std::string id, tool, arguments;
  bool answered = false;
};

std::string text_of(const Json* value) {
  if (value == nullptr) return "";
  const std::string* text = value->as_string();
  return text != nullptr ? *text : value->dump();
}

/// A call is {"id", "function": {"name", "arguments"}}, or the inner object by itself.
Call read_call(const Json& json) {
  const Json* function = json.find("function");
  const Json& inner = function != nullptr && function->is_object() ? *function : json;
  return {text_of(json.find("id")), text_of(inner.find("name")), text_of(inner.find("arguments"))};
}

/// The call that a result answers: by id, else the first that waits.
Call* find_call(std::vector<Call>& calls, const Json& result) {
  const std::string id = text_of(result.find("tool_call_id"));
  const auto answers = [&](const Call& call) {
    return !call.answered && (id.empty() || call.id.empty() || call.id == id);
  };
  const auto found = std::ranges::find_if(calls, answers);
  return found == calls.end() ? nullptr : &*found;
}

bool is_result(const std::string& role) {
  return role == "tool" || role == "function" || role == "ipython";
}

/// Calls `visit(message, call or nullptr)` for each result.
template <class Visit>
void for_each_result(const Json::Array& messages, Visit visit) {
  std::vector<Call> calls;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (has_tool_calls(messages[i])) {
      calls.clear();
      for (const Json& call : *messages[i].find("tool_calls")->as_array()) {
        calls.push_back(read_call(call));
      }
    }
    const std::string role = role_of(messages[i]);
    if (role == "user") calls.clear();
    if (!is_result(role)) continue;
    Call* call = find_call(calls, messages[i]);
    visit(static_cast<int32_t>(i), call);
    if (call != nullptr) call->answered = true;
  }
}

}  // namespace

std::vector<ToolResult> tool_results(const Json::Array& messages) {
  std::vector<ToolResult> results;
  for_each_result(messages, [&](int32_t message, const Call* call) {
    ToolResult result{message, call != nullptr ? call->tool : "",
                      call != nullptr ? call->arguments : ""};
    if (result.tool.empty()) result.tool = text_of(messages[message].find("name"));
    results.push_back(std::move(result));
  });
  return results;
}

std::vector<int32_t> orphaned_results(const Json::Array& messages) {
  std::vector<int32_t> orphans;
  for_each_result(messages, [&](int32_t message, const Call* call) {
    if (call == nullptr) orphans.push_back(message);
  });
  return orphans;
}

}  // namespace quire::context::window
