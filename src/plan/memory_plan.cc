#include "plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/integer_math.h"
#include "kernels/activations.h"
#include "kernels/kernel_set.h"

namespace quire::plan {
namespace {

constexpr int64_t kTooMuch = int64_t{1} << 62;
// Code, threads, allocator and buffers of the program; the vocabulary's strings, hash table and
// merges. Both measured: resident set less the terms above, SmolLM2 and Gemma 3 270M.
constexpr int64_t kProgramBytes = int64_t{9} << 20;
constexpr int64_t kVocabularyEntryBytes = 110;

/// Sums and products that stop at kTooMuch, so that absurd plans stay comparable.
int64_t add(int64_t a, int64_t b) {
  return std::min(a + b, kTooMuch);
}
int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return kTooMuch;
  return std::min(product, kTooMuch);
}

/// What kernels::Activations holds for a number, in the forms that `cols` allows.
double bytes_per_activation(int64_t cols) {
  double bytes = 4.0;
  if (cols % 32 == 0) bytes += 1.0 + sizeof(kernels::ActivationBlock) / 32.0;
  if (cols % 256 == 0) bytes += 1.0 + 4.0 / 256 + 2.0 / 16;
  return bytes;
}

int64_t activations(int64_t rows, int64_t cols) {
  return static_cast<int64_t>(static_cast<double>(multiply(rows, cols)) *
                              bytes_per_activation(cols));
}

/// Partial results of attention over splits of the context, one row of each sequence; the buffer
/// doubles what it needs.
int64_t partial_bytes(const ActivationWidths& w, const PlanRequest& request) {
  if (request.threads == 1 || w.heads == 0) return 0;
  const int64_t splits = divide_up(request.context, kernels::kSplitTokens);
  if (splits < 2) return 0;
  const int64_t floats = kernels::attention_partial_floats(static_cast<int32_t>(w.head_dim));
  // More rows than two a sequence, or enough sequences for all threads, are never split.
  const int64_t rows = std::min<int64_t>(request.all_sequences(), request.threads * 4);
  return multiply(multiply(rows * splits, w.heads * floats), 2 * sizeof(float));
}

/// The scratch of one forward pass. // model/scratch.cc
int64_t activation_bytes(const ModelShape& shape, const PlanRequest& request) {
  const ActivationWidths& w = shape.widths;
  const int64_t chunk = std::min(request.prefill_chunk, request.context);
  const int64_t rows = shape.context > 0 ? std::min(request.prefill_chunk, shape.context) : chunk;
  const int64_t floats =
      2 * w.hidden + w.query + 2 * w.key_value + 2 * w.ffn + 2 * w.num_ropes * (w.head_dim / 2);
  int64_t bytes = multiply(rows, 4 * floats);
  bytes = add(bytes, activations(rows, w.hidden));
  bytes = add(bytes, activations(rows, w.query));
  bytes = add(bytes, activations(rows, w.ffn));
  return add(bytes, partial_bytes(w, request));
}

WeightBytes weight_bytes(const ModelShape& shape, const WeightMix* mix) {
  if (mix != nullptr) return mixed_bytes(shape, *mix);
  if (shape.stored) return {shape.stored->file_bytes, shape.stored->loaded_bytes};
  return float_bytes(shape);
}

/// Bytes for all sequences when what stands before `shared` is there once.
int64_t with_sharing(int64_t each, int64_t shared_of_each, int64_t shared_once,
                     const PlanRequest& request) {
  const int64_t own = std::max<int64_t>(each - shared_of_each, 0);
  return add(multiply(own, request.all_sequences()), shared_once);
}

void plan_cache(const ModelShape& shape, const PlanRequest& request, MemoryPlan& plan) {
  const CachePlan cache(shape, request.kv, request.cache);
  const CacheStrategy& strategy = request.cache;
  const int64_t tokens = request.mean_tokens();
  int64_t shared = strategy.reserves_all || strategy.recomputes ? 0 : request.shared;
  // Lossy pages are shared whole.
  if (!kv::is_lossless(request.kv)) shared -= shared % kv::kPageTokens;
  plan.kv_used = with_sharing(cache.used_bytes(tokens), cache.shared_used_bytes(tokens, shared),
                              shared > 0 ? cache.shared_used_bytes(shared, shared) : 0, request);
  int64_t held = with_sharing(cache.held_bytes(tokens), cache.shared_held_bytes(tokens, shared),
                              shared > 0 ? cache.shared_held_bytes(shared, shared) : 0, request);
  const int64_t chunk = std::min(request.prefill_chunk, request.context);
  plan.prefill = cache.prefill_bytes(tokens, chunk);
  if (strategy.reserves_all) {
    held = multiply(
        add(cache.held_bytes(request.context), cache.prefill_bytes(request.context, chunk)),
        request.all_sequences());
    plan.prefill = 0;
  }
  if (strategy.recomputes) {
    plan.kv_used = cache.used_bytes(tokens);
    held = cache.held_bytes(tokens);
  }
  plan.page_rounding = std::max<int64_t>(held - plan.kv_used, 0);
  if (strategy.resident_bytes) plan.spilled = std::max<int64_t>(held - *strategy.resident_bytes, 0);
}

MemoryPlan plan_with(const ModelShape& shape, const PlanRequest& request, WeightBytes weights) {
  MemoryPlan plan{.weights = weights.loaded, .weights_file = weights.file};
  plan_cache(shape, request, plan);
  const bool computes = shape.widths.hidden > 0;
  plan.activation = computes ? activation_bytes(shape, request) : 0;
  plan.logits = multiply(request.all_sequences(), shape.vocab * int64_t{sizeof(float)});
  plan.overhead = computes ? kProgramBytes + shape.vocab * kVocabularyEntryBytes : 0;
  for (const int64_t part : {plan.weights, plan.kv_used, plan.page_rounding, plan.prefill,
                             plan.activation, plan.logits, plan.overhead}) {
    plan.total = add(plan.total, part);
  }
  plan.total -= plan.spilled;
  return plan;
}

}  // namespace

Result<void> check_request(const PlanRequest& r) {
  const auto bad = [](std::string sentence) {
    return Error{ErrorCode::kUsage, std::move(sentence)};
  };
  if (r.context < 1 || r.context > kv::kMaxTokens) {
    return bad(fmt::format("--context {} is not between 1 and {}", r.context,
                           format_count(kv::kMaxTokens)));
  }
  if (r.mean_tokens() > r.context) {
    return bad(fmt::format("--mean-context {} is beyond --context {}", r.mean_tokens(), r.context));
  }
  if (r.shared > r.mean_tokens()) {
    return bad(fmt::format("--shared {} is beyond the {} tokens that a sequence has", r.shared,
                           r.mean_tokens()));
  }
  if (r.all_sequences() > kMaxSequences) {
    return bad(fmt::format("--sequences {} with --beams {} are more than {} sequences", r.sequences,
                           r.beams, format_count(kMaxSequences)));
  }
  return {};
}

MemoryPlan plan_memory(const ModelShape& shape, const PlanRequest& request) {
  return plan_with(shape, request, weight_bytes(shape, request.weights));
}

int64_t max_context(const ModelShape& shape, const PlanRequest& request) {
  const int64_t most = shape.context > 0 ? shape.context : kv::kMaxTokens;
  const WeightBytes weights = weight_bytes(shape, request.weights);
  return largest_that_fits(most, [&](int64_t tokens) {
    PlanRequest longer = request;
    longer.context = tokens;
    longer.mean_context = std::nullopt;
    longer.shared = std::min(request.shared, tokens);
    return plan_with(shape, longer, weights).total <= request.memory;
  });
}

int64_t max_sequences(const ModelShape& shape, const PlanRequest& request) {
  const WeightBytes weights = weight_bytes(shape, request.weights);
  return largest_that_fits(kMaxSequences / request.beams, [&](int64_t sequences) {
    PlanRequest more = request;
    more.sequences = sequences;
    return plan_with(shape, more, weights).total <= request.memory;
  });
}

}  // namespace quire::plan
