// generate.h: one answer: prefill what is new of a prompt, then token after token until an end.
//
// Ends at an end-of-generation token, a stop string (found across token borders, never shown), the
// wanted number of tokens, the window's end, or when the caller says so; what was generated until
// then is always returned. Thread rule: as Engine.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/draft_policy.h"
#include "engine/engine.h"
#include "engine/logprobs.h"
#include "engine/sampler.h"
#include "engine/token_constraint.h"

namespace quire::engine {

struct GenerateOptions {
  SamplingOptions sampling;
  std::optional<int64_t> max_tokens;  // absent: until a stop or the window's end
  std::vector<std::string> stop;      // not empty strings
  std::optional<int32_t> logprobs;    // absent: none; else this many alternatives a token
  std::vector<TokenId> end_tokens;    // further ends of generation, beyond the tokenizer's
  /// Lengths of beginnings of the prompt that other prompts will share: each is published when it
  /// is done, so that layers with windows can go on from there. Ascending.
  std::vector<int64_t> resume_points;
  /// Guesses from the text so far that are verified together: they change how long it takes only.
  DraftOptions draft;
};

enum class FinishReason : uint8_t { kStop, kLength, kInterrupted };
/// "stop", "length", "interrupted".
std::string_view name(FinishReason reason);

struct GeneratedLogprob {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

struct GenerateTimings {
  double prefill_ms = 0.0;
  double ttft_ms = 0.0;         // start to first token
  std::vector<double> gaps_ms;  // between tokens
};

struct Generated {
  std::string text;             // whole characters; without end token and stop string
  std::vector<TokenId> tokens;  // all that were chosen, an end token included
  FinishReason finish = FinishReason::kStop;
  std::string stop;  // the stop string or the end token's text; empty otherwise
  std::vector<GeneratedLogprob> logprobs;
  int64_t prompt_tokens = 0;
  Reuse reuse;  // of the prompt: what was not prefilled again
  GenerateTimings timings;
  DraftCounts drafts;
};

struct GenerateEvents {
  /// Prompt tokens read; return false to stop.
  Engine::Progress on_prefill;
  /// New text, whole characters that no stop string can claim; may be empty. Called once a token;
  /// return false to stop.
  std::function<bool(std::string_view)> on_text;
};

/// Whether generate() could begin: kUsage or kDoesNotFit says why not.
Result<void> check_request(const Engine& engine, std::span<const TokenId> prompt,
                           const GenerateOptions& options);

/// Continues `sequence` so that it holds `prompt` (from what is known of it, see Engine::resume();
/// the last prompt token always runs), then generates. Publishes the prompt and, at the end, all;
/// also what was read of a prompt until an interruption. Afterwards the sequence holds the prompt
/// and all generated tokens but the last chosen one. kDoesNotFit if the prompt, or the prompt and
/// `max_tokens`, exceed the window; nothing is changed then. Says only what `constraint` allows;
/// null: anything.
Result<Generated> generate(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                           const GenerateOptions& options, const GenerateEvents& events,
                           TokenConstraint* constraint = nullptr);

}  // namespace quire::engine
