// scheduler_entry.h: a request inside a Scheduler; for its own sources.
//
// Plain data: Scheduler keeps it consistent. It holds pages only while it runs.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/answer.h"
#include "engine/draft_policy.h"
#include "engine/engine.h"
#include "engine/ngram_drafter.h"
#include "engine/request.h"
#include "engine/schedule_plan.h"
#include "engine/scheduler.h"

namespace quire::engine {

struct Scheduler::Entry {
  RequestId id;
  Request request;
  std::unique_ptr<RequestListener> listener;
  std::vector<TokenId> tokens;         // the prompt and all chosen ones
  std::vector<int64_t> resume_points;  // lengths at which it is published; ascending
  /// While another reads what both have in common: who, and how far.
  struct Leader {
    RequestId id;
    int64_t until = 0;
  };
  std::optional<Leader> leader;
  std::unique_ptr<Answer> answer;    // since it was first started
  Reuse reuse;                       // of its first start
  std::optional<Sequence> sequence;  // while it runs
  NgramDrafter drafter;              // knows the first of `tokens`
  HitRate hit_rate;                  // of its guesses
  DraftCounts drafts;
  std::vector<TokenId> tentative;       // of a step: the token chosen last and guesses
  std::optional<TokenId> guessed_next;  // of a step, whether it is verified or not
  std::string text;                     // shown since the last event
  std::optional<Generated> finished;    // its last token is chosen

  [[nodiscard]] int64_t prompt_tokens() const {
    return static_cast<int64_t>(request.prompt.size());
  }
  [[nodiscard]] bool is_background() const { return request.priority == Priority::kBackground; }
  [[nodiscard]] int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
  [[nodiscard]] bool has_spoken() const { return answer && !answer->tokens().empty(); }
  /// Tokens that have to run before the next one can be chosen.
  [[nodiscard]] int64_t num_pending() const { return num_tokens() - sequence->length(); }
  [[nodiscard]] std::span<const TokenId> pending() const {
    return std::span(tokens).subspan(static_cast<size_t>(sequence->length()));
  }
  /// How far it may go before others must be shown where it stands.
  [[nodiscard]] int64_t tokens_to_next_point() const {
    const auto next = std::ranges::upper_bound(resume_points, sequence->length());
    if (next == resume_points.end()) return num_pending();
    return std::min(num_pending(), *next - sequence->length());
  }
  /// Whether more than the next token has to run.
  [[nodiscard]] bool is_reading() const { return num_pending() > 1; }
  /// Whether each may use the other's pages.
  [[nodiscard]] bool shares_with(const Entry& other) const {
    return request.reuse == PrefixReuse::kOn && other.request.reuse == PrefixReuse::kOn &&
           request.tenant == other.request.tenant && request.salt == other.request.salt;
  }
  /// Whether it only runs the token chosen last, and nobody waits for a point that it must not
  /// step over.
  [[nodiscard]] bool may_guess() const {
    return has_spoken() && num_pending() == 1 &&
           (resume_points.empty() || resume_points.back() <= sequence->length());
  }
  [[nodiscard]] Contender contender() const { return {id, request.tenant}; }
};

}  // namespace quire::engine
