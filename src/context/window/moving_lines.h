// moving_lines.h: lines that change from request to request, and what that costs.
//
// A prompt is read again from its first token that differs; a date in the system message makes
// every turn read everything after it. Found by comparing two requests, or by looking for dates and
// times in the parts that should stand still. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context/window/keep_plan.h"

namespace quire::context::window {

struct MovingLine {
  std::string part;       // "system"
  std::string line;       // the text of the line
  bool observed = false;  // it did change between two requests; else it looks as if it would
  /// Tokens between it and the question: read again in each turn because of it.
  int64_t reprefill_tokens = 0;
  std::string advice;
};

/// Dates, times, and ids made at random, in parts that are static or stay for a session; and the
/// template's own clock.
std::vector<MovingLine> lines_that_look_moving(const Planner& planner);

/// Where a request departs from the one before it, if that is before the log's end.
std::optional<MovingLine> line_that_moved(const Planner& before, const Planner& now);

/// Whether a text holds a date, a time of day, a Unix time or a UUID.
bool looks_moving(std::string_view line);

/// Tokens at the start of `now` that `cached` has too.
int64_t common_tokens(std::span<const TokenId> cached, std::span<const TokenId> now);

/// "this line costs 3,100 tokens of re-prefill each turn: ...".
std::string describe(const MovingLine& moving);

}  // namespace quire::context::window
