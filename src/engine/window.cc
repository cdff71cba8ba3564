#include "engine/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::engine {
namespace {

std::string_view explain(WindowLimit limit) {
  switch (limit) {
    case WindowLimit::kTrained:
      return "the length the model was trained for";
    case WindowLimit::kCtx:
      return "set by --ctx";
    case WindowLimit::kMemory:
      return "all that memory has room for";
  }
  return "";
}

}  // namespace

std::string_view name(WindowLimit limit) {
  switch (limit) {
    case WindowLimit::kTrained:
      return "trained";
    case WindowLimit::kCtx:
      return "ctx";
    case WindowLimit::kMemory:
      return "memory";
  }
  return "";
}

Result<Window> resolve_window(int64_t trained, std::optional<int64_t> asked, int64_t affordable) {
  if (asked && *asked > trained) {
    return Error{
        ErrorCode::kDoesNotFit,
        fmt::format("--ctx {} is beyond the {} tokens the model was trained for; --rope-scaling "
                    "yarn:F stretches it F times as far, at some cost in quality",
                    *asked, trained)};
  }
  if (asked && *asked < 1) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--ctx {}: a window has at least one token", *asked)};
  }
  if (asked && *asked > affordable) {
    return Error{
        ErrorCode::kDoesNotFit,
        fmt::format("--ctx {} does not fit: memory has room for {} tokens; lower --ctx or choose "
                    "a smaller --kv",
                    *asked, affordable)};
  }
  if (asked) return Window{*asked, *asked == trained ? WindowLimit::kTrained : WindowLimit::kCtx};
  if (affordable < 1) {
    return Error{ErrorCode::kDoesNotFit, "memory has no room for keys and values of even one page"};
  }
  if (affordable < trained) return Window{affordable, WindowLimit::kMemory};
  return Window{trained, WindowLimit::kTrained};
}

Result<void> check_fits(const Window& window, int64_t prompt, std::optional<int64_t> reserve) {
  const int64_t left = window.tokens - prompt;
  if (left >= reserve.value_or(1)) return {};
  const std::string of_window =
      fmt::format("the window of {} tokens ({})", window.tokens, explain(window.limit));
  if (reserve && left > 0) {
    return Error{
        ErrorCode::kDoesNotFit,
        fmt::format("the prompt of {} tokens and -n {} need {}, beyond {}; {} are left: lower -n "
                    "or shorten the prompt",
                    prompt, *reserve, prompt + *reserve, of_window, left)};
  }
  return Error{
      ErrorCode::kDoesNotFit,
      fmt::format("the prompt of {} tokens{} does not fit {}; {} are left: shorten the prompt",
                  prompt, reserve ? fmt::format(" with -n {}", *reserve) : "", of_window,
                  std::max<int64_t>(left, 0))};
}

}  // namespace quire::engine
