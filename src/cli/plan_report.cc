#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/pieces.h"
#include "plan/what_if.h"

namespace quire::cli {
namespace {

using formats::Json;
using plan::CacheGroup;
using plan::CachePlan;
using plan::MemoryPlan;
using plan::WhatIf;

// Rows of the table for people; the JSON has all.
constexpr std::string_view kShownWeights[] = {"bf16",   "q8_0", "q6_k",   "q5_k_m", "q4_k_m",
                                              "q4_k_s", "q4_0", "q3_k_m", "q2_k"};

std::string_view kind(const CacheGroup& group) {
  if (!group.has_rows()) return "state";
  if (group.layer().value_dim == 0) return "latent";
  return group.is_window() ? "window" : "global";
}

Json kl_json(double kl) {
  return kl < 0.0 ? Json() : Json(kl);
}

std::string kl_text(double kl) {
  if (kl < 0.0) return "-";
  return kl == 0.0 ? "0" : fmt::format("{:.1e}", kl);
}

Json group_json(const CacheGroup& group, int64_t tokens) {
  Json json;
  json.set("kind", kind(group));
  json.set("layers", group.num_layers());
  json.set("kv_heads", int64_t{group.layer().num_kv_heads});
  json.set("key_dim", int64_t{group.layer().key_dim});
  json.set("value_dim", int64_t{group.layer().value_dim});
  json.set("window_tokens", group.is_window() ? Json(int64_t{group.rows().window_tokens}) : Json());
  json.set("sink_tokens", int64_t{group.rows().sink_tokens});
  json.set("bytes_per_token", group.has_rows() ? group.bytes_per_token() : int64_t{0});
  json.set("fixed_bytes", group.fixed_bytes());
  json.set("state_bytes", group.state_bytes());
  json.set("used_bytes", group.used_bytes(tokens));
  json.set("held_bytes", group.held_bytes(tokens));
  json.set("pages", group.held_pages(tokens));
  json.set("page_bytes", group.has_rows() ? group.page_bytes() : int64_t{0});
  json.set("sealed_page_bytes", group.has_rows() ? group.sealed_page_bytes() : int64_t{0});
  return json;
}

Json what_if_json(const WhatIf& row, std::string_view key, const PlanReport& report) {
  Json json;
  json.set(key, row.name);
  json.set("kv_bytes_per_token", row.kv_bytes_per_token);
  json.set("kv_fixed_bytes_per_sequence", row.kv_fixed_bytes);
  json.set("kv_bytes", row.plan.kv_used);
  json.set("weights_bytes", row.plan.weights);
  json.set("weights_file_bytes", row.plan.weights_file);
  json.set("total_bytes", row.plan.total);
  json.set("fits", row.plan.total <= report.request.memory);
  json.set("max_context", row.max_context);
  json.set("max_sequences", row.max_sequences);
  json.set("kl", kl_json(row.kl));
  json.set("runs", row.runs);
  return json;
}

Json contexts_json(const PlanReport& report) {
  Json array(Json::Array{});
  for (const int64_t context : report.contexts) {
    plan::PlanRequest request = report.request;
    request.context = context;
    request.mean_context = std::nullopt;
    request.shared = std::min(request.shared, context);
    const MemoryPlan plan = plan::plan_memory(report.shape, request);
    Json json;
    json.set("context", context);
    json.set("kv_bytes", plan.kv_used);
    json.set("total_bytes", plan.total);
    json.set("fits", plan.total <= request.memory);
    array.push_back(std::move(json));
  }
  return array;
}

/// Cached bytes of multi-head attention, and what share of them the model does without.
struct Saving {
  int64_t multi_head_bytes = 0;
  double share = 0.0;
};

Saving saving(const PlanReport& report, const CachePlan& cache) {
  const int64_t tokens = report.request.mean_tokens();
  const int64_t used = cache.used_bytes(tokens);
  Saving out{.multi_head_bytes = cache.multi_head_bytes(tokens)};
  if (out.multi_head_bytes > 0) {
    out.share = 1.0 - static_cast<double>(used) / static_cast<double>(out.multi_head_bytes);
  }
  return out;
}

Json notes_json(const std::vector<std::string>& notes) {
  Json array(Json::Array{});
  for (const std::string& note : notes) array.push_back(utf8_sanitized(note));
  return array;
}

Json request_json(const PlanReport& report) {
  const plan::PlanRequest& r = report.request;
  Json json;
  json.set("context", r.context);
  json.set("mean_context", r.mean_tokens());
  json.set("sequences", r.sequences);
  json.set("beams", r.beams);
  json.set("shared", r.shared);
  json.set("kv", kv::name(r.kv));
  json.set("weights", r.weights != nullptr ? Json(r.weights->name) : Json());
  json.set("memory", r.memory);
  json.set("memory_given", report.memory_given);
  return json;
}

std::string line(std::string_view label, int64_t bytes, std::string_view how) {
  return fmt::format("{:<22} {:>10}  {}\n", label, format_bytes(bytes), how);
}

std::string head_lines(const PlanReport& report) {
  const plan::ModelShape& shape = report.shape;
  const plan::PlanRequest& r = report.request;
  std::string out = fmt::format("{:<22} {}", "model", one_line(shape.family));
  const int64_t parameters = shape.parameters();
  if (parameters > 0) out += fmt::format(", {} parameters", format_count(parameters));
  if (shape.context > 0) {
    out += fmt::format(", trained for {} tokens", format_count(shape.context));
  }
  out += fmt::format("\n{:<22} {} sequence{}", "plan", format_count(r.sequences),
                     r.sequences == 1 ? "" : "s");
  if (r.beams > 1) out += fmt::format(" x {} beams", r.beams);
  out += fmt::format(" of {} tokens", format_count(r.mean_tokens()));
  if (r.mean_context) out += fmt::format(" (at most {})", format_count(r.context));
  if (r.shared > 0) out += fmt::format(", the first {} shared by all", format_count(r.shared));
  return out + fmt::format(", KV in {}\n\n", kv::name(r.kv));
}

std::string weights_how(const PlanReport& report) {
  const plan::PlanRequest& r = report.request;
  if (r.weights != nullptr) return fmt::format("as {}", r.weights->name);
  if (report.shape.stored) return report.shape.stored->types;
  if (report.shape.weights.empty()) return "not known";
  return fmt::format("{}, as the configuration says", report.shape.float_type);
}

std::string cache_how(const PlanReport& report, const CachePlan& cache) {
  const plan::PlanRequest& r = report.request;
  std::string how = fmt::format("{} sequence{} x (", format_count(r.all_sequences()),
                                r.all_sequences() == 1 ? "" : "s");
  if (cache.bytes_per_token() > 0) {
    how += fmt::format("{} x {} tokens", format_count(cache.bytes_per_token()),
                       format_count(r.mean_tokens()));
  }
  if (cache.fixed_bytes() > 0) {
    how += fmt::format("{}{} fixed", cache.bytes_per_token() > 0 ? " + " : "",
                       format_count(cache.fixed_bytes()));
  }
  how += ")";
  if (!kv::is_lossless(r.kv)) how += ", the first and the last page in f16";
  return r.shared > 0 ? how + " less what is shared" : how;
}

std::string total_lines(const PlanReport& report, const CachePlan& cache) {
  const MemoryPlan& p = report.plan;
  const plan::PlanRequest& r = report.request;
  std::string out = line("weights", p.weights, weights_how(report));
  out += line("keys and values", p.kv_used, cache_how(report, cache));
  out += line("page rounding", p.page_rounding, "whole pages of 64 tokens are held");
  if (p.prefill > 0) {
    out += line("prefill", p.prefill,
                fmt::format("further pages while {} tokens are read at once", r.prefill_chunk));
  }
  if (p.spilled > 0) out += line("spilled", -p.spilled, "pages on disk");
  if (p.activation > 0) {
    out += line("activations", p.activation,
                fmt::format("scratch of one pass over {} tokens", r.prefill_chunk));
  }
  if (p.logits > 0) {
    out += line("logits", p.logits,
                fmt::format("{} x {} tokens x 4 bytes", format_count(r.all_sequences()),
                            format_count(report.shape.vocab)));
  }
  if (p.overhead > 0) out += line("program", p.overhead, "code, vocabulary, buffers");
  const bool fits = p.total <= r.memory;
  return out + line("total", p.total,
                    fmt::format("{} {} ({})", fits ? "fits in" : "does not fit in",
                                format_bytes(r.memory),
                                report.memory_given ? "--memory" : "free on this machine now"));
}

std::string capacity_lines(const PlanReport& report, const CachePlan& cache) {
  const plan::ModelShape& shape = report.shape;
  const plan::PlanRequest& r = report.request;
  std::string out = fmt::format("\n{:<22} {}\n", "formula", cache.formula());
  const Saving saved = saving(report, cache);
  if (saved.share > 0.005) {
    out += fmt::format("{:<22} {} a sequence instead of {} ({:.0f} % saved)\n",
                       "against multi-head", format_bytes(cache.used_bytes(r.mean_tokens())),
                       format_bytes(saved.multi_head_bytes), 100.0 * saved.share);
  }
  const std::string each = r.all_sequences() == 1 ? "" : " each";
  out += fmt::format("{:<22} {} tokens{}\n", "longest context",
                     format_count(plan::max_context(shape, r)), each);
  out += fmt::format("{:<22} {} of {} tokens\n", "most sequences",
                     format_count(plan::max_sequences(shape, r)), format_count(r.mean_tokens()));
  return out;
}

std::string table_row(const WhatIf& row, const PlanReport& report, int64_t first) {
  return fmt::format("{:<10} {:>12} {:>12} {:>5} {:>14} {:>12} {:>9}{}\n", row.name,
                     format_bytes(first), format_bytes(row.plan.total),
                     row.plan.total <= report.request.memory ? "yes" : "no",
                     format_count(row.max_context), format_count(row.max_sequences),
                     kl_text(row.kl), row.runs ? "" : "  not run by Quire");
}

std::string tables(const PlanReport& report) {
  constexpr std::string_view kHead = "\n{:<10} {:>12} {:>12} {:>5} {:>14} {:>12} {:>9}\n";
  std::string out = fmt::format(fmt::runtime(kHead), "if --kv", "KV", "total", "fits",
                                "max context", "sequences", "KL");
  for (const WhatIf& row : plan::by_codec(report.shape, report.request)) {
    out += table_row(row, report, row.plan.kv_used);
  }
  const auto weights = plan::by_weights(report.shape, report.request);
  if (weights.empty()) return out;
  out += fmt::format(fmt::runtime(kHead), "if weights", "weights", "total", "fits", "max context",
                     "sequences", "KL");
  for (const WhatIf& row : weights) {
    if (std::ranges::count(kShownWeights, row.name) > 0) {
      out += table_row(row, report, row.plan.weights);
    }
  }
  return out;
}

std::string context_lines(const PlanReport& report) {
  if (report.contexts.size() < 2) return "";
  std::string out = fmt::format("\n{:>12} {:>12} {:>12} {:>5}\n", "context", "KV", "total", "fits");
  const Json rows = contexts_json(report);
  for (const Json& row : *rows.as_array()) {
    out += fmt::format("{:>12} {:>12} {:>12} {:>5}\n", format_count(*row.find("context")->as_int()),
                       format_bytes(*row.find("kv_bytes")->as_int()),
                       format_bytes(*row.find("total_bytes")->as_int()),
                       *row.find("fits")->as_bool() ? "yes" : "no");
  }
  return out;
}

}  // namespace

Json plan_json(const PlanReport& report) {
  const plan::ModelShape& shape = report.shape;
  const MemoryPlan& p = report.plan;
  const CachePlan cache(shape, report.request.kv, report.request.cache);
  Json json;
  json.set("architecture", utf8_sanitized(shape.family));
  json.set("parameters", shape.parameters());
  json.set("request", request_json(report));
  json.set("weights_bytes", p.weights);
  json.set("weights_file_bytes", p.weights_file);
  json.set("kv_bytes_per_token", cache.bytes_per_token());
  json.set("kv_fixed_bytes_per_sequence", cache.fixed_bytes());
  json.set("kv_bytes", p.kv_used);
  json.set("page_rounding_bytes", p.page_rounding);
  json.set("prefill_bytes", p.prefill);
  json.set("spilled_bytes", p.spilled);
  json.set("activation_bytes", p.activation);
  json.set("logits_bytes", p.logits);
  json.set("overhead_bytes", p.overhead);
  json.set("total_bytes", p.total);
  json.set("fits", p.total <= report.request.memory);
  json.set("max_context", plan::max_context(shape, report.request));
  json.set("max_sequences", plan::max_sequences(shape, report.request));
  json.set("trained_context", shape.context > 0 ? Json(shape.context) : Json());
  json.set("formula", cache.formula());
  const Saving saved = saving(report, cache);
  json.set("multi_head_kv_bytes", saved.multi_head_bytes);
  json.set("saved_against_multi_head", saved.share);
  Json groups(Json::Array{});
  for (const CacheGroup& group : cache.groups()) {
    groups.push_back(group_json(group, report.request.mean_tokens()));
  }
  json.set("by_layer_group", std::move(groups));
  Json codecs(Json::Array{});
  for (const WhatIf& row : plan::by_codec(shape, report.request)) {
    codecs.push_back(what_if_json(row, "kv", report));
  }
  json.set("by_codec", std::move(codecs));
  Json weights(Json::Array{});
  for (const WhatIf& row : plan::by_weights(shape, report.request)) {
    weights.push_back(what_if_json(row, "weights", report));
  }
  json.set("by_weights", std::move(weights));
  json.set("by_context", contexts_json(report));
  json.set("notes", notes_json(report.notes));
  return json;
}

std::string plan_text(const PlanReport& report) {
  const CachePlan cache(report.shape, report.request.kv, report.request.cache);
  std::string out = head_lines(report);
  out += total_lines(report, cache);
  out += capacity_lines(report, cache);
  out += context_lines(report);
  out += tables(report);
  if (!report.notes.empty()) out += '\n';
  for (const std::string& note : report.notes) out += fmt::format("note: {}\n", one_line(note));
  return out;
}

}  // namespace quire::cli
