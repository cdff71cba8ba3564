// beam_search.h: the likeliest of many answers: N beams go on side by side, and the best are kept.
//
// Semantics are those of beam_rules.h. All beams take a token in one batched step; they share the
// pages of everything they have in common and copy one page on the first token that differs, so
// that at any moment at most
//
//   pages of the prompt + N x (pages of the generated tokens + 1)
//
// are held in each layer group (docs/beam-search.md has the bound for open and sealed pages). Draws
// nothing: the same prompt always gives the same answers. Thread rule: as Engine.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/beam_rules.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace quire::engine {

struct BeamSearchOptions {
  BeamRules rules;
  std::optional<int64_t> max_tokens;  // absent: until the search is settled or the window's end
  std::vector<std::string> stop;      // a beam whose text holds one is finished
  std::optional<int32_t> logprobs;    // absent: none; else this many alternatives a token
  std::vector<TokenId> end_tokens;    // further ends of generation, beyond the model's
};

struct BeamAnswer {
  Generated generated;   // prompt and timings are those of the whole search
  double logprob = 0.0;  // of all its tokens together
  double score = 0.0;    // logprob / tokens^length_penalty
};

struct BeamSearchResult {
  /// Best first; N of them unless the search ended early, never none.
  std::vector<BeamAnswer> answers;
  /// Why it ended early although nobody asked: memory for pages ran out (kDoesNotFit). The answers
  /// are the best until then.
  std::optional<Error> cut_short;
};

struct BeamSearchEvents {
  /// Prompt tokens read; return false to stop.
  Engine::Progress on_prefill;
  /// Tokens that each unfinished beam has, of the most; return false to stop with the best so far.
  Engine::Progress on_token;
};

/// Searches the answers to `prompt`. `start` is any sequence of `engine`; it becomes the prompt
/// (see Engine::resume()), which is published, and then the first beam. kUsage, or kDoesNotFit if
/// the prompt and `max_tokens` exceed the window, or the prompt alone memory; no page is held then.
/// An interrupted search counts the unfinished beams among the answers; if the prompt was not yet
/// read, there is one of no tokens.
[[nodiscard]] Result<BeamSearchResult> beam_search(Engine& engine, Sequence start,
                                                   std::span<const TokenId> prompt,
                                                   const BeamSearchOptions& options,
                                                   const BeamSearchEvents& events);

}  // namespace quire::engine
