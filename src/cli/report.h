// report.h: the fields that answers share: reuse, context, timings, kv, memory.
//
// Pure functions from what the engine says to JSON and to one line for people.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cli/environment.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "engine/reports.h"
#include "formats/json.h"

namespace quire::cli {

using engine::reuse_json;

/// What of a prompt came from the cache, in words: "20 of 31 prompt tokens were known; message[0]
/// user goes on with ...".
std::string describe(const engine::Reuse& reuse, const engine::Prompt& prompt,
                     const context::Tokenizer& tokenizer);

formats::Json timings_json(double load_ms, const engine::Generated& generated);
formats::Json kv_json(const engine::Engine& engine);
/// Includes the process's resident set.
formats::Json memory_json(const Environment& env, const engine::Engine& engine);
/// One number a token.
formats::Json logprobs_json(std::span<const engine::GeneratedLogprob> logprobs);
/// One list of alternatives a token: {id, piece, logprob}, likeliest first.
formats::Json top_logprobs_json(const context::Tokenizer& tokenizer,
                                std::span<const engine::GeneratedLogprob> logprobs);

/// "dynamic", "none".

/// "[31 prompt tokens (0 cached) in 0.12 s, 64 tokens at 85.1 tok/s]".
std::string summary(const engine::Generated& generated);

/// The value that `share` (0 to 1) of the values do not exceed; 0 for none.
double percentile(std::vector<double> values, double share);

}  // namespace quire::cli
