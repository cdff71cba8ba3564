// fit.h: a plan carried out: the messages that are sent, and the report of what became of the rest.
//
// Every part of the request is accounted for: kept, or dropped with an action and a handle. What is
// kept sums to the prompt's tokens exactly. Functions without state; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "context/window/keep_plan.h"
#include "context/window/summarizer.h"
#include "formats/json.h"

namespace quire::context::window {

/// One part before and after.
struct PartReport {
  std::string part;
  PartKind kind = PartKind::kHistory;
  int64_t before = 0;
  int64_t after = 0;
  std::string action;  // "pinned", "kept", "masked", "dropped", "summarized", "added", ...
  std::string handle;  // of the original; empty if it is whole
  std::string why;
};

struct Report {
  KeepPlan::Status status = KeepPlan::Status::kFits;
  Policy policy = Policy::kReject;
  Limits limits;
  Budget budget;
  int64_t tokens_before = 0;
  int64_t prompt_tokens = 0;
  std::optional<int64_t> max_tokens;         // as it stands now
  std::optional<int64_t> max_tokens_before;  // if it was lowered
  int64_t step_tokens = 0;                   // cuts moved by so much; 0: as little as needed
  std::vector<PartReport> parts;             // template first, then in order
  std::string risk = "none";                 // one clause
  std::vector<std::string> notes;
};

/// What is sent.
struct Fitted {
  ChatRequest chat;        // its prompt has report.prompt_tokens tokens
  formats::Json messages;  // the same with insertions merged: what a client would send
  CountedPrompt prompt;
  std::vector<std::string> message_ids;    // part of each message of `chat`
  std::vector<std::string> insertion_ids;  // and of each insertion
  Report report;

  /// The part that a token of the prompt belongs to; "the end" behind the last.
  std::string part_at(int64_t token) const;
};

/// What a plan costs, given what is cached: a price, never a reason.
struct Cost {
  int64_t reused = 0;            // tokens of the prompt that are cached
  int64_t reprefilled = 0;       // that must be read
  std::string first_divergence;  // the part that holds the first token which is not cached
};
Cost cost_of(const Fitted& fitted, std::span<const TokenId> cached);

/// Plans and carries out. kDoesNotFit with the numbers if nothing fits (overflow_error()). Errors
/// of the summarizer pass through; null: extraction.
Result<Fitted> fit(const Planner& planner, const Limits& limits, Summarizer* summarizer = nullptr);

/// Carries a plan out that was not refused.
Result<Fitted> carry_out(const Planner& planner, const KeepPlan& plan, Summarizer* summarizer);

/// The shared report: {status, policy, limit, window, prompt_tokens, reserve, kept[], dropped[],
/// risk, ...}.
formats::Json context_json(const Report& report);

/// Sets max_tokens, lowered to what is left if the policy lets it shrink.
void decide_output(const WindowPolicy& policy, Report& report);

/// "fits", "changed".
std::string_view name(KeepPlan::Status status);

/// One line for people: "changed by auto: 3,390 of 6,120 prompt tokens kept; ...".
std::string one_line_of(const Report& report);

}  // namespace quire::context::window
