#include "plan/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "plan/kv_error.h"

namespace quire::plan {
namespace {

constexpr size_t kMostChanges = 5;

WhatIf evaluate(const ModelShape& shape, const PlanRequest& request, std::string name, double kl) {
  const CachePlan cache(shape, request.kv, request.cache);
  return {.name = std::move(name),
          .kl = kl,
          .kv_bytes_per_token = cache.bytes_per_token(),
          .kv_fixed_bytes = cache.fixed_bytes(),
          .plan = plan_memory(shape, request),
          .max_context = max_context(shape, request),
          .max_sequences = max_sequences(shape, request)};
}

/// A way to spend less: a codec, a weight type, or both.
struct Change {
  std::string options;
  double kl = 0.0;
  int64_t total = 0;
};

std::string error_text(double kl) {
  return kl == 0.0 ? std::string("loses nothing") : fmt::format("KL {:.1e}", kl);
}

std::vector<kv::KvCodecs> coarser_codecs(const PlanRequest& request) {
  std::vector<kv::KvCodecs> codecs;
  for (const kv::KvCodecs usual : usual_codecs()) {
    if (code_bits(usual) < code_bits(request.kv)) codecs.push_back(usual);
  }
  return codecs;
}

std::vector<const WeightMix*> lighter_mixes(const ModelShape& shape, const PlanRequest& request) {
  std::vector<const WeightMix*> mixes;
  if (shape.weights.empty()) return mixes;
  const int64_t now = plan_memory(shape, request).weights;
  for (const WeightMix& mix : weight_mixes()) {
    if (mix.kl >= 0.0 && runs(mix) && mixed_bytes(shape, mix).loaded < now) mixes.push_back(&mix);
  }
  return mixes;
}

std::vector<Change> possible_changes(const ModelShape& shape, const PlanRequest& request) {
  std::vector<Change> changes;
  const auto add = [&](const PlanRequest& changed, std::string options, double kl) {
    const int64_t total = plan_memory(shape, changed).total;
    if (total <= request.memory) changes.push_back({std::move(options), kl, total});
  };
  const auto codecs = coarser_codecs(request);
  const auto mixes = lighter_mixes(shape, request);
  for (const kv::KvCodecs codec : codecs) {
    PlanRequest changed = request;
    changed.kv = codec;
    add(changed, fmt::format("--kv {}", kv::name(codec)), measured_kl(codec).value_or(0.0));
  }
  for (const WeightMix* mix : mixes) {
    PlanRequest changed = request;
    changed.weights = mix;
    add(changed, fmt::format("--weights {}", mix->name), mix->kl);
    for (const kv::KvCodecs codec : codecs) {
      changed.kv = codec;
      // Errors of independent roundings add up to first order.
      add(changed, fmt::format("--weights {} --kv {}", mix->name, kv::name(codec)),
          mix->kl + measured_kl(codec).value_or(0.0));
    }
  }
  std::ranges::stable_sort(changes, {}, &Change::kl);
  return changes;
}

/// Doing less: shorter or fewer sequences.
std::vector<std::string> smaller_work(const ModelShape& shape, const PlanRequest& request) {
  std::vector<std::string> sentences;
  const int64_t sequences = max_sequences(shape, request);
  if (request.sequences > 1 && sequences > 0) {
    sentences.push_back(fmt::format("--sequences {} fits as it is", format_count(sequences)));
  }
  const int64_t context = max_context(shape, request);
  if (context > 0 && context < request.mean_tokens()) {
    sentences.push_back(fmt::format("--context {} fits as it is", format_count(context)));
  }
  return sentences;
}

}  // namespace

std::vector<WhatIf> by_codec(const ModelShape& shape, const PlanRequest& request) {
  std::vector<WhatIf> rows;
  for (const kv::KvCodecs codecs : usual_codecs()) {
    PlanRequest changed = request;
    changed.kv = codecs;
    rows.push_back(evaluate(shape, changed, kv::name(codecs), measured_kl(codecs).value_or(-1.0)));
  }
  return rows;
}

std::vector<WhatIf> by_weights(const ModelShape& shape, const PlanRequest& request) {
  std::vector<WhatIf> rows;
  if (shape.weights.empty()) return rows;
  for (const WeightMix& mix : weight_mixes()) {
    PlanRequest changed = request;
    changed.weights = &mix;
    rows.push_back(evaluate(shape, changed, std::string(mix.name), mix.kl));
    rows.back().runs = runs(mix);
  }
  return rows;
}

std::vector<std::string> cheapest_changes(const ModelShape& shape, const PlanRequest& request) {
  std::vector<std::string> sentences;
  const int64_t total = plan_memory(shape, request).total;
  if (total <= request.memory) return sentences;
  // Of changes with the same error the lightest comes first, and a heavier one behind it is no use.
  int64_t lightest = INT64_MAX;
  for (const Change& change : possible_changes(shape, request)) {
    if (sentences.size() >= kMostChanges - 2 || change.total >= lightest) continue;
    lightest = change.total;
    sentences.push_back(fmt::format("{} fits with {} ({} less; {})", change.options,
                                    format_bytes(change.total), format_bytes(total - change.total),
                                    error_text(change.kl)));
  }
  for (std::string& sentence : smaller_work(shape, request)) {
    sentences.push_back(std::move(sentence));
  }
  if (sentences.empty()) {
    sentences.push_back(
        fmt::format("no codec or weight type makes it fit: {} are missing for one token of one "
                    "sequence at the coarsest",
                    format_bytes(total - request.memory)));
  }
  return sentences;
}

}  // namespace quire::plan
