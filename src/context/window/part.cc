#include "context/window/part.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quire::context::window {
namespace {

constexpr std::array<std::pair<PartKind, std::string_view>, 12> kKinds = {{
    {PartKind::kTemplate, "template"},
    {PartKind::kTools, "tools"},
    {PartKind::kSystem, "system"},
    {PartKind::kProject, "project"},
    {PartKind::kFewShot, "fewshot"},
    {PartKind::kMemory, "memory"},
    {PartKind::kHistory, "history"},
    {PartKind::kToolResult, "tool_result"},
    {PartKind::kRag, "rag"},
    {PartKind::kSummary, "summary"},
    {PartKind::kState, "state"},
    {PartKind::kQuestion, "question"},
}};

}  // namespace

std::string_view name(PartKind kind) {
  return kKinds[static_cast<size_t>(kind)].second;
}

std::optional<PartKind> part_kind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &decltype(kKinds)::value_type::second);
  return found == kKinds.end() ? std::nullopt : std::optional(found->first);
}

std::string_view name(Stability stability) {
  switch (stability) {
    case Stability::kStatic:
      return "static";
    case Stability::kSession:
      return "session";
    case Stability::kLog:
      return "log";
    case Stability::kVolatile:
      return "volatile";
  }
  return "";
}

std::string_view name(Trust trust) {
  switch (trust) {
    case Trust::kOperator:
      return "operator";
    case Trust::kUser:
      return "user";
    case Trust::kModel:
      return "model";
    case Trust::kTool:
      return "tool";
    case Trust::kDocument:
      return "document";
  }
  return "";
}

std::string_view name(Truncate truncate) {
  switch (truncate) {
    case Truncate::kNone:
      return "none";
    case Truncate::kHead:
      return "head";
    case Truncate::kTail:
      return "tail";
    case Truncate::kHeadTail:
      return "headtail";
  }
  return "";
}

}  // namespace quire::context::window
