// How verify's record is told: JSON, and a table for people.
#include <fmt/format.h>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/verification.h"

namespace quire::cli {
namespace {

using formats::Json;

std::string reference_name(const Setup& setup) {
  engine::CachePolicy none = engine::CacheKind::kNone;
  none.sliding = setup.cache.sliding;
  return engine::name(none) + " " + kv::name(setup.codecs);
}

double speedup(const Outcome& o) {
  return o.step_ms > 0.0 ? o.none_step_ms / o.step_ms : 0.0;
}

Json difference_json(const engine::LogitComparison& comparison) {
  Json json;
  if (const auto first = comparison.first_difference()) {
    json.set("step", first->row);
    json.set("token", first->token);
  }
  return json;
}

Json outcome_json(const VerifyRecord& record, const Outcome& o) {
  Json json;
  json.set("cache", engine::name(o.setup.cache));
  json.set("kv", kv::name(o.setup.codecs));
  json.set("lossless", o.lossless);
  json.set("against", reference_name(o.setup));
  json.set("tokens", record.prompt_tokens);
  json.set("steps", record.steps);
  json.set("prefill_chunk", o.setup.prefill_chunk);
  if (o.setup.threads) json.set("threads", *o.setup.threads);
  json.set("identical", o.against_same.identical());
  json.set("max_abs_diff", o.against_same.max_abs_diff());
  json.set("kl_mean", o.against_plain.kl_mean());
  json.set("kl_max", o.against_plain.kl_max());
  json.set("top1_agreement", o.against_plain.top1_agreement());
  json.set("first_difference", difference_json(o.against_same));
  json.set("ms", o.ms);
  json.set("speedup", speedup(o));
  json.set("bytes", o.kv_bytes);
  json.set("note", o.note.empty() ? Json() : Json(o.note));
  return json;
}

Json speed_json(const SpeedRow& row) {
  Json json;
  json.set("tokens", row.tokens);
  json.set("none_ms", row.none_ms);
  json.set("ms", row.ms);
  json.set("speedup", row.speedup());
  json.set("identical", row.comparison.identical());
  json.set("max_abs_diff", row.comparison.max_abs_diff());
  json.set("first_difference", difference_json(row.comparison));
  return json;
}

std::string result_text(const engine::LogitComparison& comparison) {
  if (comparison.identical()) return "identical, bit for bit";
  return fmt::format("DIFFERS from step {}", comparison.first_difference()->row);
}

/// Chunk and threads, where they are not the usual ones.
std::string cache_text(const VerifyRecord& record, const Setup& setup) {
  std::string text = engine::name(setup.cache);
  if (setup.threads)
    text += fmt::format(", {} thread{}", *setup.threads, *setup.threads == 1 ? "" : "s");
  const int64_t usual = record.outcomes.front().setup.prefill_chunk;
  if (setup.prefill_chunk != usual && !setup.cache.offload_bytes)
    text += fmt::format(", chunks of {}", setup.prefill_chunk);
  return text;
}

std::string outcome_line(const VerifyRecord& record, const Outcome& o) {
  return fmt::format("{:<22} {:<6} {:<8} {:<22} {:>9} {:>7} {:>9} {:>10}{}\n",
                     cache_text(record, o.setup), kv::name(o.setup.codecs),
                     o.lossless ? "yes" : "no", result_text(o.against_same),
                     o.note.empty() ? fmt::format("{:.1e}", o.against_plain.kl_mean()) : "-",
                     fmt::format("{:.0f} %", 100.0 * o.against_plain.top1_agreement()),
                     fmt::format("{:.1f}x", speedup(o)), format_bytes(o.kv_bytes),
                     o.note.empty() ? "" : "  " + o.note);
}

std::string speed_lines(const VerifyRecord& record) {
  if (record.speeds.empty()) return "";
  std::string out = fmt::format("\n{:>7} {:>12} {:>12} {:>9}  one step after so many tokens\n",
                                "tokens", "no cache", "dynamic f16", "speed-up");
  for (const SpeedRow& row : record.speeds) {
    out += fmt::format("{:>7} {:>9.2f} ms {:>9.2f} ms {:>8.2f}x  {}\n", format_count(row.tokens),
                       row.none_ms, row.ms, row.speedup(), result_text(row.comparison));
  }
  return out;
}

bool shows_lossy(const VerifyRecord& record) {
  for (const Outcome& o : record.outcomes) {
    if (!kv::is_lossless(o.setup.codecs)) return true;
  }
  return false;
}

}  // namespace

Json to_json(const VerifyRecord& record) {
  Json reference;
  reference.set("tokens", record.prompt_tokens);
  reference.set("ms", record.reference_ms);
  reference.set("cache", "none");
  reference.set("kv", "f16");
  reference.set("steps", record.steps);
  Json results(Json::Array{});
  for (const Outcome& outcome : record.outcomes) results.push_back(outcome_json(record, outcome));
  Json lengths(Json::Array{});
  for (const SpeedRow& row : record.speeds) lengths.push_back(speed_json(row));
  Json json;
  json.set("model", utf8_sanitized(record.model));
  json.set("activations", record.activations == kernels::ActivationPolicy::kF32 ? "f32" : "int8");
  json.set("reference", std::move(reference));
  json.set("results", std::move(results));
  json.set("lengths", std::move(lengths));
  json.set("left_out", record.left_out.empty() ? Json() : Json(record.left_out));
  return json;
}

std::string for_people(const VerifyRecord& record) {
  std::string out = fmt::format(
      "every logit of the last of {} prompt tokens and of {} greedy steps\n{:<22} {:<6} {:<8} "
      "{:<22} {:>9} {:>7} {:>9} {:>10}\n",
      format_count(record.prompt_tokens), record.steps, "cache", "kv", "lossless",
      "against no cache", "KL", "top-1", "one step", "held");
  for (const Outcome& outcome : record.outcomes) out += outcome_line(record, outcome);
  out +=
      "against no cache: everything recomputed, with the same codec and mask; one step: how many\n"
      "times faster than that; KL and top-1: against no cache at f16 with every key attended\n";
  if (record.activations == kernels::ActivationPolicy::kInt8 && shows_lossy(record)) {
    out +=
        "activations are rounded to int8 here, so that any difference at all, even that between "
        "f16\n"
        "and f32, costs a KL of some 1e-3; --act f32 shows what the codec itself costs\n";
  }
  if (!record.left_out.empty()) out += record.left_out + "\n";
  return out + speed_lines(record);
}

}  // namespace quire::cli
