#include "context/window/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/printable.h"

namespace quire::context::window {
namespace {

using formats::Json;

constexpr std::array<std::pair<Policy, std::string_view>, 7> kPolicies = {{
    {Policy::kReject, "reject"},
    {Policy::kTruncateLeft, "truncate_left"},
    {Policy::kTruncateRight, "truncate_right"},
    {Policy::kHeadTail, "head_tail"},
    {Policy::kSummarize, "summarize"},
    {Policy::kRetrieve, "retrieve"},
    {Policy::kAuto, "auto"},
}};

/// Kinds of parts that can be cut to a budget.
constexpr std::array kBudgeted = {PartKind::kRag, PartKind::kToolResult, PartKind::kMemory,
                                  PartKind::kProject};

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

Result<int64_t> tokens_of(const Json& value, std::string_view field, int64_t least) {
  const auto tokens = value.as_int();
  if (!tokens || *tokens < least || *tokens > INT32_MAX) {
    return usage(fmt::format("{} must be a number of tokens, {} or more", field, least));
  }
  return *tokens;
}

Result<void> read_budgets(const Json& value, WindowPolicy& policy) {
  const Json::Object* budgets = value.as_object();
  if (budgets == nullptr) return usage("context.budgets must be an object of kinds and tokens");
  for (const auto& [key, tokens] : *budgets) {
    const auto kind = part_kind(key);
    if (!kind || std::ranges::count(kBudgeted, *kind) == 0) {
      return usage(
          fmt::format("context.budgets.{}: a budget can be set for rag, tool_result, memory and "
                      "project",
                      formats::printable(key)));
    }
    QUIRE_TRY(policy.budgets[*kind], tokens_of(tokens, "context.budgets." + key, 0));
  }
  return {};
}

Result<void> read_pins(const Json& value, WindowPolicy& policy) {
  const Json::Array* pins = value.as_array();
  if (pins == nullptr) return usage("context.pin must be an array of ids of parts");
  for (const Json& pin : *pins) {
    if (const std::string* id = pin.as_string()) {
      policy.pins.push_back(*id);
    } else if (const auto index = pin.as_int()) {
      policy.pins.push_back(std::to_string(*index));
    } else {
      return usage("context.pin must hold ids of parts (\"history#3\") or indexes of messages");
    }
  }
  return {};
}

Result<void> read_watermarks(const Json& value, WindowPolicy& policy) {
  const Json* high = value.find("high");
  const Json* low = value.find("low");
  const auto h = high != nullptr ? high->as_double() : policy.watermarks.high;
  const auto l = low != nullptr ? low->as_double() : policy.watermarks.low;
  if (!value.is_object() || !h || !l || !(*l > 0.0) || !(*l < *h) || !(*h <= 1.0)) {
    return usage("context.watermarks must be {high, low} with 0 < low < high <= 1");
  }
  policy.watermarks = {*h, *l};
  return {};
}

Result<void> read_member(const std::string& key, const Json& value, WindowPolicy& policy) {
  const std::string field = "context." + key;
  const std::string* text = value.as_string();
  if (key == "policy") {
    const auto known = text != nullptr ? policy_of(*text) : std::nullopt;
    if (!known) return usage(fmt::format("{} must be one of {}", field, policy_names()));
    policy.policy = *known;
  } else if (key == "reserve_output") {
    QUIRE_TRY(policy.reserve_output, tokens_of(value, field, 1));
  } else if (key == "output") {
    if (text == nullptr || (*text != "shrink" && *text != "as_given")) {
      return usage(field + " must be \"shrink\" or \"as_given\"");
    }
    policy.output = *text == "shrink" ? Output::kShrink : Output::kAsGiven;
  } else if (key == "budgets") {
    return read_budgets(value, policy);
  } else if (key == "pin") {
    return read_pins(value, policy);
  } else if (key == "watermarks") {
    return read_watermarks(value, policy);
  } else if (key == "step") {
    QUIRE_TRY(policy.step, tokens_of(value, field, 0));
  } else if (key == "keep_results") {
    QUIRE_TRY(const int64_t keep, tokens_of(value, field, 0));
    policy.keep_results = static_cast<int32_t>(keep);
  } else if (key != "rag" && key != "report") {  // read by those who know chunks and replies
    return usage(
        fmt::format("{} is no field; there are policy, reserve_output, output, budgets, pin, "
                    "watermarks, step, keep_results, rag and report",
                    formats::printable(field)));
  }
  return {};
}

}  // namespace

std::string_view name(Policy policy) {
  return kPolicies[static_cast<size_t>(policy)].second;
}

std::optional<Policy> policy_of(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &decltype(kPolicies)::value_type::second);
  return found == kPolicies.end() ? std::nullopt : std::optional(found->first);
}

std::string policy_names() {
  std::string names;
  for (const auto& [policy, policy_name] : kPolicies) {
    if (!names.empty()) names += ", ";
    names += policy_name;
  }
  return names;
}

Result<void> read_context_field(const Json& context, WindowPolicy& policy) {
  if (context.is_null()) return {};
  const Json::Object* members = context.as_object();
  if (members == nullptr) return usage("context must be an object");
  for (const auto& [key, value] : *members) {
    if (!value.is_null()) QUIRE_TRY_VOID(read_member(key, value, policy));
  }
  return {};
}

Result<void> read_truncation(const Json& truncation, WindowPolicy& policy) {
  if (truncation.is_null()) return {};
  const std::string* text = truncation.as_string();
  if (text == nullptr || (*text != "auto" && *text != "disabled")) {
    return usage("truncation must be \"auto\" or \"disabled\"");
  }
  policy.policy = *text == "auto" ? Policy::kAuto : Policy::kReject;
  return {};
}

}  // namespace quire::context::window
