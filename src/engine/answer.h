// answer.h: what has been generated for one prompt so far, token after token, until it ends.
//
// Chooses tokens from logits, decodes them, finds stop strings across token borders, and notes
// times. Runs no model: whoever does hands in the logits. Thread rule: one thread at a time.
#pragma once
#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "context/stream_decoder.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "engine/token_constraint.h"

namespace quire::engine {

class Answer {
 public:
  /// `engine`, `options` and `constraint` must outlive it. `on_text` as GenerateEvents::on_text;
  /// may be empty. Without a constraint anything may be said.
  Answer(const Engine& engine, const GenerateOptions& options,
         std::function<bool(std::string_view)> on_text, TokenConstraint* constraint = nullptr);

  /// Chooses the next token from `logits`, those after all tokens of `sequence`; false if it was
  /// the last one.
  bool choose(std::span<const float> logits, const Sequence& sequence) {
    return choose(logits, sequence.tokens());
  }
  /// The same for logits after all of `before`, from the prompt's first token on.
  bool choose(std::span<const float> logits, std::span<const TokenId> before);
  /// All that were chosen.
  std::span<const TokenId> tokens() const { return out_.tokens; }
  /// Of the last one; null if none are wanted.
  const GeneratedLogprob* logprobs() const {
    return out_.logprobs.empty() ? nullptr : &out_.logprobs.back();
  }

  /// What is known before the first token.
  void set_prompt(int64_t prompt_tokens, const Reuse& reuse);
  void set_prefilled();
  void set_drafts(const DraftCounts& drafts) { out_.drafts = drafts; }
  void interrupt() { out_.finish = FinishReason::kInterrupted; }
  /// The whole answer; text that was held back is shown first. Nothing may be called after it.
  Generated take();

 private:
  using Clock = std::chrono::steady_clock;

  TokenId sample(std::span<const float> logits, std::span<const TokenId> before);
  bool is_end(TokenId token) const;
  bool is_last(TokenId token, std::span<const TokenId> before);
  bool ends(FinishReason reason);
  bool show(std::string_view text);

  const Engine& engine_;
  const GenerateOptions& options_;
  const std::function<bool(std::string_view)> on_text_;
  TokenConstraint* const constraint_;
  Sampler sampler_;
  std::vector<float> masked_;  // [vocab], with a constraint
  context::StreamDecoder decoder_;
  StopMatcher stops_;
  Generated out_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

/// Continues `sequence` to all of `tokens`, from resume point to resume point (see
/// GenerateOptions), publishing each, and returns the logits of the last. What was done before an
/// error or an interruption stays.
Result<std::span<const float>> read_prompt(Engine& engine, Sequence& sequence,
                                           std::span<const TokenId> tokens,
                                           std::span<const int64_t> resume_points,
                                           const Engine::Progress& progress);

}  // namespace quire::engine
