// window.h: how many tokens a context may hold, and which limit says so.
//
// Law 4: what does not fit is an error with the numbers, never a silent cut. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace quire::engine {

enum class WindowLimit : uint8_t { kTrained, kCtx, kMemory };

/// "trained", "ctx", "memory".
std::string_view name(WindowLimit limit);

struct Window {
  int64_t tokens = 0;
  WindowLimit limit = WindowLimit::kTrained;
};

/// The window of a model trained for `trained` tokens when `asked` are wanted (absent: all of them)
/// and memory has room for `affordable`. kDoesNotFit if more is asked than was trained or can be
/// held.
Result<Window> resolve_window(int64_t trained, std::optional<int64_t> asked, int64_t affordable);

/// Whether `prompt` tokens and `reserve` more fit. The error says both numbers, the limit, and what
/// is left. `reserve` absent: at least one token must be left.
Result<void> check_fits(const Window& window, int64_t prompt, std::optional<int64_t> reserve);

}  // namespace quire::engine
