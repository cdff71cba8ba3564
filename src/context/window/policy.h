// policy.h: what a caller wants done when a request does not fit.
//
// Plain data, and its reading from the request field `context` and from OpenAI's `truncation`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/window/part.h"
#include "formats/json.h"

namespace quire::context::window {

enum class Policy : uint8_t {
  kReject,
  kTruncateLeft,   // drops the oldest groups
  kTruncateRight,  // cuts the question's tail
  kHeadTail,       // keeps the first and the newest groups
  kSummarize,      // replaces the oldest groups by a summary
  kRetrieve,       // replaces the history by its chunks that bear on the question
  kAuto,           // a ladder of all of them, gentlest first
};

/// "reject", "truncate_left", ...
std::string_view name(Policy policy);
std::optional<Policy> policy_of(std::string_view name);
/// All names, for messages: "reject, truncate_left, ...".
std::string policy_names();

/// What happens to a given maximum of new tokens that leaves the prompt no room.
enum class Output : uint8_t {
  kAsGiven,  // it is reserved, or the request is refused
  kShrink,   // it is lowered to what fits, and the report says so
};

/// Shares of the usable window between which a stored conversation is compacted.
struct Watermarks {
  double high = 0.85;
  double low = 0.60;
};

struct WindowPolicy {
  Policy policy = Policy::kReject;
  std::optional<int64_t> max_tokens;      // the request's own maximum of new tokens
  std::optional<int64_t> reserve_output;  // room to keep for them, if not that maximum
  Output output = Output::kAsGiven;
  std::map<PartKind, int64_t> budgets;  // tokens that all parts of a kind may take
  std::vector<std::string> pins;        // ids of parts
  /// Tokens by which a cut moves on; absent: a quarter of what is usable; 0: as little as needed.
  std::optional<int64_t> step;
  Watermarks watermarks;
  int32_t keep_results = 2;  // newest tool results, which are never masked
};

/// Adds what `context` says; null is nothing. Errors are kUsage and begin with the field's name:
/// "context.policy ...".
Result<void> read_context_field(const formats::Json& context, WindowPolicy& policy);

/// OpenAI's `truncation`: "auto" or "disabled".
Result<void> read_truncation(const formats::Json& truncation, WindowPolicy& policy);

}  // namespace quire::context::window
