// batch_generate.h: answers many prompts in one continuous batch.
//
// A Scheduler runs them (engine/scheduler.h), for throughput: up to a number of sequences decode
// together, prompts are read beside them in the largest chunks, and what prompts have in common is
// computed once. By law 1 each answer is what generate() would give alone. Thread rule: as Engine.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/generate.h"

namespace quire::engine {

struct BatchRequest {
  std::vector<TokenId> prompt;
  GenerateOptions options;  // resume_points are added to where others share the prompt
};

struct BatchEvents {
  /// A request is answered, or it cannot be: those that never can come first. Called once each, in
  /// the order in which they end.
  std::function<void(size_t index, Result<Generated> answer)> on_done;
  /// Before each step, with the number of requests done; return false to stop.
  std::function<bool(int64_t done)> on_progress;
};

struct BatchOptions {
  int32_t max_sequences = 8;  // that decode together, at least 1
};

/// Answers all requests. When stopped, those that have begun are handed over with what they have,
/// interrupted, and the others never.
void generate_batch(Engine& engine, std::span<const BatchRequest> requests,
                    const BatchOptions& options, const BatchEvents& events);

}  // namespace quire::engine
