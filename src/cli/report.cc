#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/byte_size.h"
#include "base/machine.h"
#include "cli/pieces.h"

namespace quire::cli {
namespace {

using formats::Json;

double tokens_per_second(int64_t tokens, double ms) {
  return ms > 0.0 ? static_cast<double>(tokens) * 1000.0 / ms : 0.0;
}

int64_t prefilled_tokens(const engine::Generated& generated) {
  return generated.prompt_tokens - generated.reuse.cached_tokens;
}

double decode_ms(const engine::Generated& generated) {
  const auto& gaps = generated.timings.gaps_ms;
  return std::accumulate(gaps.begin(), gaps.end(), 0.0);
}

double decode_tok_s(const engine::Generated& generated) {
  return tokens_per_second(static_cast<int64_t>(generated.timings.gaps_ms.size()),
                           decode_ms(generated));
}

Json logprob_json(const context::Tokenizer& tokenizer, const engine::TokenLogprob& token) {
  Json json;
  json.set("id", int64_t{token.id.value});
  json.set("piece", shown_piece(tokenizer.piece(token.id)));
  json.set("logprob", token.logprob);
  return json;
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

std::string describe(const engine::Reuse& reuse, const engine::Prompt& prompt,
                     const context::Tokenizer& tokenizer) {
  const std::string known =
      fmt::format("{} of {} prompt tokens were known", reuse.cached_tokens, prompt.tokens.size());
  if (!reuse.miss) return known;
  const kv::PrefixMiss& miss = *reuse.miss;
  const std::string_view part = engine::what_at(prompt, miss.token_index);
  const std::string where =
      fmt::format("token {}{}{}", miss.token_index, part.empty() ? "" : " in ", part);
  switch (miss.reason) {
    case kv::MissReason::kCold:
      return fmt::format("{}; what follows from {} on is new", known, where);
    case kv::MissReason::kTokenDiffers:
      return fmt::format("{}; {} is '{}' where '{}' was before", known, where,
                         one_line(tokenizer.piece(*miss.got)),
                         one_line(tokenizer.piece(*miss.expected)));
    case kv::MissReason::kEvicted:
      return fmt::format("{}; the pages from {} on made room for others", known, where);
    case kv::MissReason::kWindowPageGone:
      return fmt::format("{}; the window layers hold no pages from which {} can be computed", known,
                         where);
    case kv::MissReason::kKeyDiffers:
      return fmt::format("{}; the same tokens are here under another {}", known, miss.key_field);
  }
  return known;
}

Json timings_json(double load_ms, const engine::Generated& generated) {
  const engine::GenerateTimings& t = generated.timings;
  Json itl;
  itl.set("p50", percentile(t.gaps_ms, 0.50));
  itl.set("p90", percentile(t.gaps_ms, 0.90));
  itl.set("p99", percentile(t.gaps_ms, 0.99));
  Json json;
  json.set("load_ms", load_ms);
  json.set("prefill_ms", t.prefill_ms);
  json.set("ttft_ms", t.ttft_ms);
  json.set("prefill_tok_s", tokens_per_second(prefilled_tokens(generated), t.prefill_ms));
  json.set("decode_tok_s", decode_tok_s(generated));
  json.set("itl_ms", std::move(itl));
  Json draft;
  draft.set("tokens", generated.drafts.drafted);
  draft.set("accepted", generated.drafts.accepted);
  json.set("draft", std::move(draft));
  return json;
}

Json kv_json(const engine::Engine& engine) {
  const kv::KvStats stats = engine.kv_stats();
  int64_t pages = 0;
  for (const kv::KvGroupStats& group : stats.groups) {
    pages += group.pages_held + group.sealed_pages_held;
  }
  Json json;
  json.set("bytes", stats.bytes_held);
  json.set("pages", pages);
  json.set("codec", kv::name(engine.geometry().codecs()));
  json.set("cache", engine::name(engine.cache()));
  if (engine.cache().offload_bytes) json.set("spilled_bytes", stats.bytes_spilled);
  return json;
}

Json memory_json(const Environment& env, const engine::Engine& engine) {
  const engine::MemoryReport memory = engine.memory();
  const int64_t rss = resident_bytes(env.files);
  const int64_t known = memory.weights + memory.kv + memory.activation;
  Json json;
  json.set("weights_bytes", memory.weights);
  json.set("kv_bytes", memory.kv);
  json.set("activation_bytes", memory.activation);
  // What is resident beyond the three: code, vocabulary, templates, pages kept for reuse.
  json.set("other_bytes", std::max<int64_t>(rss - known, 0));
  json.set("rss_bytes", rss);
  return json;
}

Json logprobs_json(std::span<const engine::GeneratedLogprob> logprobs) {
  Json array(Json::Array{});
  for (const engine::GeneratedLogprob& token : logprobs) array.push_back(token.chosen.logprob);
  return array;
}

Json top_logprobs_json(const context::Tokenizer& tokenizer,
                       std::span<const engine::GeneratedLogprob> logprobs) {
  Json array(Json::Array{});
  for (const engine::GeneratedLogprob& token : logprobs) {
    Json top(Json::Array{});
    for (const engine::TokenLogprob& other : token.top) {
      top.push_back(logprob_json(tokenizer, other));
    }
    array.push_back(std::move(top));
  }
  return array;
}

std::string summary(const engine::Generated& generated) {
  return fmt::format(
      "[{} prompt tokens ({} cached) in {:.2f} s, {} tokens at {:.1f} tok/s]",
      format_count(generated.prompt_tokens), format_count(generated.reuse.cached_tokens),
      generated.timings.prefill_ms / 1000.0,
      format_count(static_cast<int64_t>(generated.tokens.size())), decode_tok_s(generated));
}

}  // namespace quire::cli
