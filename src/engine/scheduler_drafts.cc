// How a Scheduler guesses tokens and verifies them beside the others'.
#include <algorithm>

#include "engine/scheduler.h"
#include "engine/scheduler_entry.h"

namespace quire::engine {
namespace {

// A prompt that is read beside guesses still goes on.
constexpr int64_t kRowsForReaders = 4;

}  // namespace

/// What to verify of each that decodes. While a prompt is read its rows are worth more than
/// guesses; only a test has both. // result: [decoding], valid until tokens are chosen
std::vector<std::span<const TokenId>> Scheduler::guess(std::span<Entry* const> decoding,
                                                       bool has_readers) {
  std::vector<std::span<const TokenId>> found(decoding.size());
  if (!engine_.can_guess() || decoding.empty() ||
      static_cast<int64_t>(decoding.size()) >= kMostDraftRows) {
    return found;
  }
  std::vector<RequestId> team;
  for (const Entry* entry : decoding) team.push_back(entry->id);
  if (team != team_) {
    // Others stand at other depths: what their steps took says nothing of these.
    team_ = std::move(team);
    draft_times_ = StepTimes();
  }
  std::vector<Guesser> guessers;
  for (size_t i = 0; i < decoding.size(); ++i) {
    Entry& entry = *decoding[i];
    const DraftRule rule = entry.request.options.draft.rule;
    entry.guessed_next.reset();
    if (rule != DraftRule::kNever && entry.may_guess()) found[i] = find_guesses(entry);
    if (!found[i].empty()) entry.guessed_next = found[i].front();
    const bool waits = has_readers && rule == DraftRule::kWhenItPays;
    guessers.push_back({.available = waits ? 0 : static_cast<int32_t>(found[i].size()),
                        .hit_rate = entry.hit_rate.value(),
                        .rule = rule});
  }
  const int64_t rows = engine_.max_step_tokens() - (has_readers ? kRowsForReaders : 0);
  const std::vector<int32_t> planned = plan_drafts(
      guessers, draft_times_, static_cast<int32_t>(std::min<int64_t>(rows, kMostDraftRows)));
  for (size_t i = 0; i < found.size(); ++i) {
    found[i] = found[i].first(static_cast<size_t>(planned[i]));
  }
  return found;
}

/// What may follow the tokens so far, within what the answer's length and the window leave beside
/// the next token.
std::span<const TokenId> Scheduler::find_guesses(Entry& entry) const {
  const auto known = entry.drafter.tokens().size();
  entry.drafter.extend(std::span(entry.tokens).subspan(known));
  const GenerateOptions& options = entry.request.options;
  int64_t most = std::min<int64_t>(options.draft.most, kMostDrafts);
  most = std::min(most, engine_.window().tokens - entry.sequence->length() - 1);
  if (options.max_tokens) {
    most = std::min(most, *options.max_tokens - (entry.num_tokens() - entry.prompt_tokens()) - 1);
  }
  return entry.drafter.draft(most);
}

/// Notes and returns how long a pass took.
double Scheduler::learn(const Batch& batch, double start_ms) {
  const double ms = options_.now_ms() - start_ms;
  if (!batch.has_readers) draft_times_.note(static_cast<int32_t>(batch.num_rows()), ms);
  return ms;
}

/// Chooses tokens as long as the guesses are what is chosen; returns how many of the rows stay.
/// // logits: [rows, vocab]
int64_t Scheduler::choose_while_right(Entry& entry, std::span<const float> logits) {
  const auto vocab = static_cast<size_t>(engine_.model().config().vocab);
  const auto num_guesses = static_cast<int32_t>(entry.tentative.size()) - 1;
  entry.drafts.drafted += num_guesses;
  counters_.drafted_tokens += num_guesses;
  int32_t right = 0;
  bool goes_on = true;
  for (;;) {
    const auto row = static_cast<size_t>(right);
    entry.answer->set_drafts(entry.drafts);
    goes_on = choose(entry, logits.subspan(row * vocab, vocab));
    if (!goes_on || right == num_guesses) break;
    if (entry.tokens.back() != entry.tentative[row + 1]) break;
    ++right;
    ++entry.drafts.accepted;
    ++counters_.accepted_tokens;
  }
  if (goes_on || right < num_guesses) entry.hit_rate.note(num_guesses, right);
  return int64_t{right} + 1;
}

/// What was guessed and not verified still tells how good guesses are.
void Scheduler::look_at_guess(Entry& entry) {
  if (!entry.guessed_next) return;
  entry.hit_rate.note(1, entry.tokens.back() == *entry.guessed_next ? 1 : 0);
  entry.guessed_next.reset();
}

}  // namespace quire::engine
