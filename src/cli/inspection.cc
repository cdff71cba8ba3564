#include "cli/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/page_picture.h"
#include "cli/pieces.h"
#include "engine/kv_plan.h"

namespace quire::cli {
namespace {

using engine::CachePolicy;
using engine::SequenceCache;
using formats::Json;

constexpr size_t kShownSteps = 24;  // more are shown by their first and last

std::string_view name(GrowthStep::Phase phase) {
  return phase == GrowthStep::Phase::kPrefill ? "prefill" : "decode";
}

std::string dtype(kv::KvCodecs codecs) {
  return kv::name(codecs);
}

Json shape_json(std::initializer_list<int64_t> sizes) {
  Json json(Json::Array{});
  for (const int64_t size : sizes) json.push_back(size);
  return json;
}

int64_t batch(const Inspection& inspection) {
  return static_cast<int64_t>(inspection.sequences.size());
}

Json layers_json(const Inspection& inspection) {
  Json layers(Json::Array{});
  for (int32_t layer = 0; layer < inspection.geometry->num_layers(); ++layer) {
    const auto g = static_cast<size_t>(inspection.geometry->place(layer).group);
    const kv::LayerGroup& group = inspection.geometry->groups()[g];
    const engine::CachedGroup& cached = inspection.sequences.front().groups[g];
    int64_t bytes = 0;
    for (const SequenceCache& s : inspection.sequences) bytes += s.groups[g].bytes_used;
    const Json shape =
        shape_json({batch(inspection), group.num_kv_heads, cached.rows, group.head_dim});
    Json json;
    json.set("layer", int64_t{layer});
    json.set("group", group.is_window() ? "window" : "global");
    if (group.is_window()) json.set("window_tokens", int64_t{group.window_tokens});
    if (group.sink_tokens > 0) json.set("sink_tokens", int64_t{group.sink_tokens});
    json.set("k_shape", shape);
    json.set("v_shape", shape);
    json.set("dtype", dtype(group.codecs));
    json.set("bytes", bytes / group.num_layers());
    layers.push_back(std::move(json));
  }
  return layers;
}

Json step_json(const Inspection& inspection, const GrowthStep& step) {
  Json json;
  json.set("phase", name(step.phase));
  json.set("input_tokens", step.input_tokens);
  json.set("token", step.token ? Json(int64_t{step.token->value}) : Json());
  json.set("piece",
           step.token ? Json(shown_piece(inspection.tokenizer->piece(*step.token))) : Json());
  json.set("tokens", step.tokens);
  json.set("bytes_used", step.bytes_used);
  json.set("bytes_held", step.bytes_held);
  json.set("bytes_spilled", step.bytes_spilled);
  json.set("formula_used", step.formula_used);
  json.set("formula_held", step.formula_held);
  return json;
}

/// Pages of the first sequence, group by group, as the picture draws them.
Json pages_json(const SequenceCache& cache) {
  Json groups(Json::Array{});
  for (const engine::CachedGroup& group : cache.groups) {
    Json pages(Json::Array{});
    for (const engine::CachedPage& page : group.pages) {
      Json json;
      json.set("first_position", page.first_position);
      json.set("rows", page.rows);
      json.set("open", page.is_open);
      json.set("sealed", page.is_sealed);
      json.set("shared", page.is_shared);
      json.set("spilled", page.is_spilled);
      pages.push_back(std::move(json));
    }
    groups.push_back(std::move(pages));
  }
  return groups;
}

int64_t held_apart(const Inspection& inspection) {
  int64_t bytes = 0;
  for (const SequenceCache& s : inspection.sequences) bytes += s.bytes_held + s.bytes_spilled;
  return bytes;
}

std::string shape_text(int64_t a, int64_t b, int64_t c, int64_t d) {
  return fmt::format("[{}, {}, {}, {}]", a, b, c, d);
}

/// Layers that hold the same are one line.
std::string layer_lines(const Inspection& inspection) {
  std::string out =
      fmt::format("{:<16} {:<7} {:<38} {:<6} {:>13}\n", "layers", "group",
                  "K and V each [b, kv_heads, tokens, dim]", "dtype", "bytes a layer");
  const auto& groups = inspection.geometry->groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const kv::LayerGroup& group = groups[g];
    int64_t bytes = 0;
    for (const SequenceCache& s : inspection.sequences) bytes += s.groups[g].bytes_used;
    std::string layers = ranges(group.layers);
    if (layers.size() > 16) layers = fmt::format("{} layers", group.num_layers());
    out += fmt::format("{:<16} {:<7} {:<38} {:<6} {:>13}\n", layers,
                       group.is_window() ? "window" : "global",
                       shape_text(batch(inspection), group.num_kv_heads,
                                  inspection.sequences.front().groups[g].rows, group.head_dim),
                       dtype(group.codecs), format_count(bytes / group.num_layers()));
  }
  return out;
}

std::string step_line(const Inspection& inspection, const GrowthStep& step) {
  const std::string token =
      step.token ? one_line(inspection.tokenizer->piece(*step.token)) : std::string();
  return fmt::format("{:<8} {:>10} {:<14} {:>7} {:>13} {:>13} {:>13} {:>13}{}\n", name(step.phase),
                     fmt::format("[1, {}]", step.input_tokens), token, format_count(step.tokens),
                     format_count(step.bytes_used), format_count(step.formula_used),
                     format_count(step.bytes_held + step.bytes_spilled),
                     format_count(step.formula_held), step.agrees() ? "" : "  DIFFERS");
}

std::string growth_lines(const Inspection& inspection) {
  std::string out =
      fmt::format("{:<8} {:>10} {:<14} {:>7} {:>13} {:>13} {:>13} {:>13}\n", "phase", "input",
                  "token", "tokens", "bytes used", "= formula", "bytes held", "= formula");
  const auto& growth = inspection.growth;
  for (size_t i = 0; i < growth.size(); ++i) {
    const bool elided = growth.size() > kShownSteps && i >= kShownSteps / 2 &&
                        i + kShownSteps / 2 < growth.size() && growth[i].agrees();
    if (!elided) out += step_line(inspection, growth[i]);
    if (elided && i == kShownSteps / 2) {
      out +=
          fmt::format("... {} steps like these; --json lists all\n", growth.size() - kShownSteps);
    }
  }
  return out;
}

std::string picture_lines(const Inspection& inspection) {
  std::string out;
  for (size_t i = 0; i < inspection.sequences.size(); ++i) {
    if (inspection.sequences.size() > 1) out += fmt::format("choice {}\n", i);
    out += page_picture(*inspection.geometry, inspection.sequences[i]);
  }
  // The legend must cover whatever any of them shows.
  SequenceCache all;
  for (const SequenceCache& s : inspection.sequences) {
    all.groups.insert(all.groups.end(), s.groups.begin(), s.groups.end());
  }
  return out + page_legend(all);
}

}  // namespace

bool Inspection::agrees() const {
  return std::ranges::all_of(growth, &GrowthStep::agrees);
}

Json to_json(const Inspection& inspection) {
  Json json;
  json.set("model", utf8_sanitized(inspection.model));
  json.set("cache", engine::name(inspection.cache));
  json.set("kv", kv::name(inspection.geometry->codecs()));
  json.set("layers", layers_json(inspection));
  Json growth(Json::Array{});
  for (const GrowthStep& step : inspection.growth) growth.push_back(step_json(inspection, step));
  json.set("growth", std::move(growth));
  json.set("formula_bytes_per_token", inspection.geometry->bytes_per_token());
  json.set("fixed_bytes", inspection.geometry->fixed_bytes());
  json.set("formula", inspection.geometry->formula());
  json.set("page_tokens", kv::kPageTokens);
  json.set("agrees", inspection.agrees());
  json.set("pages", pages_json(inspection.sequences.front()));
  json.set("choices", batch(inspection));
  json.set("total_held", inspection.total_held);
  json.set("total_spilled", inspection.total_spilled);
  json.set("held_apart", held_apart(inspection));
  return json;
}

std::string for_people(const Inspection& inspection) {
  std::string out = fmt::format(
      "{} heads share {} kv heads; cache {}, {}\nformula: {}\n\n", inspection.config->num_heads,
      inspection.config->num_kv_heads, engine::name(inspection.cache),
      kv::name(inspection.geometry->codecs()), inspection.geometry->formula());
  out += growth_lines(inspection) + "\n" + layer_lines(inspection) + "\n";
  out += picture_lines(inspection);
  if (batch(inspection) > 1) {
    out += fmt::format("{} sequences hold {} together; without sharing pages it would be {}\n",
                       batch(inspection),
                       format_bytes(inspection.total_held + inspection.total_spilled),
                       format_bytes(held_apart(inspection)));
  }
  if (inspection.cache.offload_bytes) {
    out += fmt::format("{} in memory, buffers included, of at most {}; {} in a private file\n",
                       format_bytes(inspection.total_held),
                       format_bytes(*inspection.cache.offload_bytes),
                       format_bytes(inspection.total_spilled));
  }
  if (inspection.cache.recomputes()) {
    out += "nothing is kept between steps: each is given all tokens and computes them anew\n";
  }
  return out;
}

}  // namespace quire::cli
