// info: what a model's files are and what is wrong with them. Needs no weights.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pieces.h"
#include "cli/session.h"
#include "engine/describe.h"
#include "engine/kv_plan.h"
#include "engine/window.h"

namespace quire::cli {
namespace {

using engine::ModelDescription;
using formats::Json;

Json strings_json(const std::vector<std::string>& texts) {
  Json array(Json::Array{});
  for (const std::string& text : texts) array.push_back(shown_piece(text));
  return array;
}

std::string_view name(model::RopeScaling scaling) {
  switch (scaling) {
    case model::RopeScaling::kNone:
      return "none";
    case model::RopeScaling::kLinear:
      return "linear";
    case model::RopeScaling::kLlama3:
      return "llama3";
    case model::RopeScaling::kYarn:
      return "yarn";
    case model::RopeScaling::kLongRope:
      return "longrope";
  }
  return "";
}

/// What the model would cache on this machine, now.
struct CachePlan {
  kv::KvGeometry geometry;
  std::optional<engine::Window> window;  // absent: memory holds no window at all
};

/// How many layers use rope `index`.
int64_t layers_with_rope(const model::ModelConfig& config, int32_t index) {
  return std::ranges::count(config.layers, index, &model::LayerConfig::rope);
}

Json rope_json(const model::ModelConfig& config, int32_t index) {
  const model::RopeConfig& rope = config.ropes[static_cast<size_t>(index)];
  Json json;
  json.set("theta", rope.theta);
  json.set("dims", int64_t{rope.dims});
  json.set("scaling", name(rope.scaling));
  if (rope.scaling != model::RopeScaling::kNone) json.set("factor", rope.factor);
  if (rope.scaling == model::RopeScaling::kLlama3) {
    json.set("low_freq_factor", rope.low_freq_factor);
    json.set("high_freq_factor", rope.high_freq_factor);
  }
  if (rope.scaling != model::RopeScaling::kNone && rope.scaling != model::RopeScaling::kLinear) {
    json.set("original_context", rope.original_context);
  }
  if (rope.magnitude != 1.0) json.set("magnitude", rope.magnitude);
  if (!rope.divisors.empty()) json.set("divisors", static_cast<int64_t>(rope.divisors.size()));
  json.set("layers", layers_with_rope(config, index));
  return json;
}

/// The first base; further ones (a model whose window layers rotate differently) in "others".
Json ropes_json(const model::ModelConfig& config) {
  if (config.ropes.empty()) return {};
  Json json = rope_json(config, 0);
  for (size_t i = 1; i < config.ropes.size(); ++i) {
    Json others = json.find("others") != nullptr ? *json.find("others") : Json(Json::Array{});
    others.push_back(rope_json(config, static_cast<int32_t>(i)));
    json.set("others", std::move(others));
  }
  return json;
}

struct WindowLayers {
  int64_t count = 0;
  int32_t tokens = 0;
};

WindowLayers window_layers(const model::ModelConfig& config) {
  WindowLayers out;
  for (const model::LayerConfig& layer : config.layers) {
    if (layer.window_tokens == 0) continue;
    ++out.count;
    out.tokens = layer.window_tokens;
  }
  return out;
}

void set_config(const model::ModelConfig& config, const CachePlan* plan, Json& json) {
  json.set("layers", int64_t{config.num_layers});
  json.set("hidden", int64_t{config.hidden});
  json.set("ffn", int64_t{config.ffn});
  json.set("heads", int64_t{config.num_heads});
  json.set("kv_heads", int64_t{config.num_kv_heads});
  json.set("head_dim", int64_t{config.head_dim});
  json.set("vocab", int64_t{config.vocab});
  json.set("context", int64_t{config.context});
  json.set("tied_head", config.tied_head);
  const WindowLayers window = window_layers(config);
  json.set("window_layers", window.count);
  json.set("window_tokens", window.count > 0 ? Json(int64_t{window.tokens}) : Json());
  json.set("rope", ropes_json(config));
  if (plan == nullptr) return;
  json.set("kv_bytes_per_token", plan->geometry.bytes_per_token());
  json.set("kv_fixed_bytes", plan->geometry.fixed_bytes());
  json.set("kv_formula", plan->geometry.formula());
  if (!plan->window) return;
  json.set("window", plan->window->tokens);
  json.set("window_limit", engine::name(plan->window->limit));
}

Json tokenizer_json(const engine::TokenizerDescription& tokenizer) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(shown_piece(text));
  };
  Json json;
  json.set("kind", tokenizer.kind);
  json.set("vocab", int64_t{tokenizer.vocab});
  json.set("bos", text_or_null(tokenizer.bos));
  json.set("eos", text_or_null(tokenizer.eos));
  json.set("ends", strings_json(tokenizer.ends));
  json.set("add_bos", tokenizer.adds_bos);
  json.set("add_eos", tokenizer.adds_eos);
  return json;
}

Json template_json(const context::TemplateTraits& traits) {
  Json json;
  json.set("system_role", traits.system_role);
  json.set("tools", traits.tools);
  json.set("tool_calls", traits.tool_calls);
  json.set("prints_bos", traits.prints_bos);
  json.set("generation_prompt", traits.generation_prompt);
  json.set("uses_clock", traits.uses_clock);
  json.set("after_answer", strings_json(traits.after_answer));
  json.set("reasoning", traits.reasoning_tags.has_value());
  return json;
}

Json sampling_json(const engine::SamplingDefaults& sampling) {
  Json json(Json::Object{});
  if (sampling.temperature) json.set("temperature", *sampling.temperature);
  if (sampling.top_k) json.set("top_k", int64_t{*sampling.top_k});
  if (sampling.top_p) json.set("top_p", *sampling.top_p);
  if (sampling.min_p) json.set("min_p", *sampling.min_p);
  if (sampling.repeat_penalty) json.set("repeat_penalty", *sampling.repeat_penalty);
  return json;
}

Json to_json(const ModelDescription& d, const CachePlan* plan) {
  Json json;
  json.set("path", utf8_sanitized(d.path));
  json.set("format", d.format);
  json.set("file_bytes", d.file_bytes);
  json.set("architecture", d.architecture.empty() ? Json() : Json(d.architecture));
  json.set("parameters", d.parameters);
  json.set("weights_bytes", d.weights_bytes);
  for (const char* key : {"layers", "hidden", "heads", "kv_heads", "head_dim", "context", "rope"}) {
    json.set(key, Json());
  }
  if (d.config) set_config(*d.config, plan, json);
  Json tensors(Json::Object{});
  for (const auto& [type, count] : d.tensors) tensors.set(type, count);
  json.set("tensors", std::move(tensors));
  json.set("tokenizer", d.tokenizer ? tokenizer_json(*d.tokenizer) : Json());
  json.set("template", d.chat_template ? template_json(*d.chat_template) : Json());
  json.set("sampling", sampling_json(d.sampling));
  if (plan == nullptr) json.set("kv_bytes_per_token", Json());
  json.set("warnings", strings_json(d.warnings));
  return json;
}

std::string line(std::string_view label, std::string_view value) {
  return fmt::format("{:<14} {}\n", label, value);
}

std::string config_lines(const model::ModelConfig& c, const CachePlan* plan) {
  std::string out = line(
      "shape", fmt::format("{} layers, hidden {}, ffn {}, {} heads, {} kv heads, "
                           "head dim {}",
                           c.num_layers, c.hidden, c.ffn, c.num_heads, c.num_kv_heads, c.head_dim));
  out += line("vocabulary", fmt::format("{} embeddings, {}", format_count(c.vocab),
                                        c.tied_head ? "which are the output head too"
                                                    : "and an output head of its own"));
  out += line("context", format_count(c.context) + " tokens");
  const WindowLayers window = window_layers(c);
  if (window.count > 0) {
    out += line("windows", fmt::format("{} of {} layers see the last {} tokens only", window.count,
                                       c.num_layers, window.tokens));
  }
  for (size_t i = 0; i < c.ropes.size(); ++i) {
    const model::RopeConfig& rope = c.ropes[i];
    std::string text = fmt::format("theta {}, {} dims, {} layers", rope.theta, rope.dims,
                                   layers_with_rope(c, static_cast<int32_t>(i)));
    if (rope.scaling != model::RopeScaling::kNone) {
      text += fmt::format(", {} scaling by {}", name(rope.scaling), rope.factor);
    }
    out += line("rope", text);
  }
  if (plan == nullptr) return out;
  if (plan->window) {
    out +=
        line("window here", fmt::format("{} tokens (limit: {})", format_count(plan->window->tokens),
                                        engine::name(plan->window->limit)));
  }
  return out + line("kv cache", plan->geometry.formula());
}

std::string tokenizer_lines(const engine::TokenizerDescription& t) {
  std::string ends;
  for (const std::string& end : t.ends) ends += (ends.empty() ? "" : " ") + one_line(end);
  std::string out = line("tokenizer", fmt::format("{}, {} tokens", t.kind, format_count(t.vocab)));
  out +=
      line("", fmt::format("BOS {}{}, EOS {}{}", t.bos.empty() ? "none" : one_line(t.bos),
                           t.adds_bos ? " (added)" : "", t.eos.empty() ? "none" : one_line(t.eos),
                           t.adds_eos ? " (added)" : ""));
  return out + line("", "an answer ends at " + (ends.empty() ? "no token" : ends));
}

std::string template_lines(const ModelDescription& d) {
  if (!d.chat_template) return line("template", "none");
  const context::TemplateTraits& t = *d.chat_template;
  std::string can;
  const auto add = [&can](bool has, std::string_view what) {
    if (has) can += (can.empty() ? "" : ", ") + std::string(what);
  };
  add(t.system_role, "system messages");
  add(t.tools, "tools");
  add(t.tool_calls, "tool calls");
  add(t.reasoning_tags.has_value(), "reasoning");
  add(t.uses_clock, "prints the date");
  return line("template", can.empty() ? "plain turns" : can);
}

std::string for_people(const ModelDescription& d, const CachePlan* plan) {
  std::string out = line("model", d.path);
  out += line("format", fmt::format("{}, {} in {} file{}", d.format,
                                    format_bytes(static_cast<int64_t>(d.file_bytes)),
                                    d.files.size(), d.files.size() == 1 ? "" : "s"));
  out += line("architecture", d.architecture.empty() ? "unknown" : d.architecture);
  out += line("parameters", format_count(d.parameters));
  if (d.config) out += config_lines(*d.config, plan);
  std::string tensors;
  for (const auto& [type, count] : d.tensors) {
    tensors += fmt::format("{}{} {}", tensors.empty() ? "" : ", ", count, type);
  }
  out += line("tensors", tensors.empty() ? "none" : tensors);
  if (d.tokenizer) out += tokenizer_lines(*d.tokenizer);
  out += template_lines(d);
  for (const std::string& warning : d.warnings) out += line("warning", one_line(warning));
  return out;
}

/// Adds to the warnings what stands in the way.
std::optional<CachePlan> plan_cache(const Environment& env, kv::KvCodecs codecs,
                                    std::optional<int64_t> context, ModelDescription& described) {
  if (!described.config) return std::nullopt;
  auto geometry = engine::kv_geometry(*described.config, codecs);
  if (!geometry.ok()) {
    described.warnings.push_back(geometry.error().message);
    return std::nullopt;
  }
  const int64_t trained = described.config->context;
  const int64_t budget =
      cache_budget(inspect_machine(env.files)) -
      static_cast<int64_t>(std::min<uint64_t>(described.weights_bytes, INT64_MAX));
  const int64_t affordable = engine::affordable_tokens(
      *geometry, budget, trained, std::min(ComputeOptions{}.prefill_chunk, trained));
  const auto window = engine::resolve_window(trained, context, affordable);
  if (!window.ok()) described.warnings.push_back(window.error().message);
  return CachePlan{.geometry = *std::move(geometry),
                   .window = window.ok() ? std::optional(*window) : std::nullopt};
}

Result<void> run_info(const Command& self, const Environment& env,
                      std::span<const std::string> args) {
  ModelOptions model;
  kv::KvCodecs codecs;
  std::optional<int64_t> context;
  OutputOptions output_options;
  OptionParser parser("quire info");
  parser.positional(model.models, 1);
  parser.heading("Model");
  parser.add({{"-m", "--model"},
              "MODEL",
              "the model, instead of the first argument",
              append(model.models)});
  declare_kv(parser, codecs);
  parser.add({{"-c", "--ctx", "--context"},
              "N",
              "the window that is wanted (default: what the model was trained for)",
              store_int(context, 1, INT32_MAX)});
  declare(parser, output_options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};

  Output output(env, output_options);
  warn_of_coarse_codecs(output, codecs);
  QUIRE_TRY(const std::string path, only_model(env, model.models, "info"));
  QUIRE_TRY(ModelDescription described, engine::describe_model(env.files, path));
  const std::optional<CachePlan> plan = plan_cache(env, codecs, context, described);
  const CachePlan* known = plan ? &*plan : nullptr;
  output.text(for_people(described, known));
  return output.finish(to_json(described, known));
}

}  // namespace

const Command kInfoCommand = {
    .name = "info",
    .arguments = "MODEL [options]",
    .summary = "what a model's files are and what is wrong with them",
    .example =
        "  quire info model.gguf\n"
        "  quire info model.gguf --json | jq .warnings\n",
    .run = run_info,
};

}  // namespace quire::cli
