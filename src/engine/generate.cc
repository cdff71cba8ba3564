#include "engine/generate.h"

#include <algorithm>
#include <chrono>

#include "engine/answer.h"
#include "engine/draft_policy.h"
#include "engine/ngram_drafter.h"

namespace quire::engine {
namespace {

/// Decodes token after token, several in one step where guesses from the text pay.
class Decoding {
 public:
  Decoding(Engine& engine, Sequence& sequence, const GenerateOptions& options, Answer& answer)
      : engine_(engine),
        sequence_(sequence),
        options_(options),
        answer_(answer),
        policy_(options.draft) {
    if (!engine.can_guess()) policy_ = DraftPolicy({.rule = DraftRule::kNever});
    drafter_.extend(sequence.tokens());
  }

  /// `logits` are those of the prompt's last token.
  Result<void> run(std::span<const float> logits) {
    bool goes_on = answer_.choose(logits, sequence_);
    while (goes_on) {
      const TokenId chosen = answer_.tokens().back();
      drafter_.extend({&chosen, 1});
      const std::span<const TokenId> guesses = drafter_.draft(most_guesses());
      const int32_t drafts = policy_.choose(static_cast<int32_t>(guesses.size()));
      QUIRE_TRY(goes_on, drafts > 0 ? step_with(chosen, guesses.first(static_cast<size_t>(drafts)))
                                    : step_alone(chosen, guesses));
    }
    answer_.set_drafts(counts_);
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// What window, room in a batch and the wanted length leave beside the chosen token.
  int64_t most_guesses() const {
    int64_t most = std::min<int64_t>(kMostDrafts, engine_.max_step_tokens() - 1);
    most = std::min(most, engine_.window().tokens - sequence_.length() - 1);
    if (options_.max_tokens) {
      most =
          std::min(most, *options_.max_tokens - static_cast<int64_t>(answer_.tokens().size()) - 1);
    }
    return most;
  }

  Result<bool> step_alone(TokenId chosen, std::span<const TokenId> guesses) {
    const Clock::time_point start = Clock::now();
    QUIRE_TRY(const auto logits, engine_.append(sequence_, {&chosen, 1}));
    policy_.note_step(1, ms_since(start));
    const bool goes_on = answer_.choose(logits, sequence_);
    // What was guessed and not tried still tells how good guesses are.
    if (!guesses.empty()) {
      policy_.note_guesses(1, answer_.tokens().back() == guesses.front() ? 1 : 0);
    }
    return goes_on;
  }

  Result<bool> step_with(TokenId chosen, std::span<const TokenId> guesses) {
    std::vector<TokenId> tokens = {chosen};
    tokens.insert(tokens.end(), guesses.begin(), guesses.end());
    const auto num_guesses = static_cast<int32_t>(guesses.size());
    const auto before_length = static_cast<size_t>(sequence_.length());
    std::vector<TokenId> before(sequence_.tokens().begin(), sequence_.tokens().end());
    before.insert(before.end(), tokens.begin(), tokens.end());
    const auto vocab = static_cast<size_t>(engine_.model().config().vocab);
    bool goes_on = true;
    int32_t right = 0;
    const Clock::time_point start = Clock::now();
    const auto keep = [&](std::span<const float> logits, std::span<int64_t> kept) {
      policy_.note_step(num_guesses + 1, ms_since(start));
      for (size_t i = 0;; ++i) {
        kept[0] = static_cast<int64_t>(i) + 1;
        goes_on = answer_.choose(logits.subspan(i * vocab, vocab),
                                 std::span(before).first(before_length + i + 1));
        if (!goes_on || i == static_cast<size_t>(num_guesses)) return;
        if (answer_.tokens().back() != tokens[i + 1]) return;
        ++right;
      }
    };
    logits_.resize(tokens.size() * vocab);
    const StepItem item{.sequence = &sequence_, .tokens = tokens, .logits = StepItem::Logits::kAll};
    const Result<void> stepped = engine_.step_guessing({&item, 1}, logits_, keep);
    // Guesses want room that the answer itself may do without.
    if (!stepped.ok() && stepped.error().code == ErrorCode::kDoesNotFit) {
      return step_alone(chosen, {});
    }
    QUIRE_TRY_VOID(stepped);
    if (goes_on || right < num_guesses) policy_.note_guesses(num_guesses, right);
    counts_.drafted += num_guesses;
    counts_.accepted += right;
    const auto accepted = static_cast<size_t>(sequence_.length()) - before_length - 1;
    drafter_.extend(std::span(tokens).subspan(1, accepted));
    return goes_on;
  }

  static double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  Engine& engine_;
  Sequence& sequence_;
  const GenerateOptions& options_;
  Answer& answer_;
  NgramDrafter drafter_;
  DraftPolicy policy_;
  DraftCounts counts_;
  std::vector<float> logits_;  // [tokens of a step with guesses, vocab]
};

Result<Generated> prefill_and_decode(Engine& engine, Sequence& sequence,
                                     std::span<const TokenId> prompt,
                                     const GenerateOptions& options, const GenerateEvents& events,
                                     TokenConstraint* constraint) {
  Answer answer(engine, options, events.on_text, constraint);
  answer.set_prompt(static_cast<int64_t>(prompt.size()), engine.resume(sequence, prompt));
  auto prefilled = read_prompt(engine, sequence, prompt, options.resume_points, events.on_prefill);
  if (!prefilled.ok() && prefilled.error().code == ErrorCode::kInterrupted) {
    answer.interrupt();
    return answer.take();
  }
  QUIRE_TRY(const std::span<const float> logits, std::move(prefilled));
  answer.set_prefilled();
  QUIRE_TRY_VOID(Decoding(engine, sequence, options, answer).run(logits));
  return answer.take();
}

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kInterrupted:
      return "interrupted";
  }
  return "";
}

Result<void> check_request(const Engine& engine, std::span<const TokenId> prompt,
                           const GenerateOptions& options) {
  if (prompt.empty()) {
    return Error{ErrorCode::kUsage, "the prompt has no tokens; give some text to continue"};
  }
  if (options.max_tokens && *options.max_tokens < 1) {
    return Error{ErrorCode::kUsage, "-n must be at least 1"};
  }
  QUIRE_TRY_VOID(check_sampling(options.sampling, engine.model().config().vocab));
  return check_fits(engine.window(), static_cast<int64_t>(prompt.size()), options.max_tokens);
}

Result<Generated> generate(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                           const GenerateOptions& options, const GenerateEvents& events,
                           TokenConstraint* constraint) {
  QUIRE_TRY_VOID(check_request(engine, prompt, options));
  auto generated = prefill_and_decode(engine, sequence, prompt, options, events, constraint);
  engine.publish(sequence, PublishPoint::kEnds);
  return generated;
}

}  // namespace quire::engine
