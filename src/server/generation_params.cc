#include "server/generation_params.h"

#include <fmt/format.h>

#include <charconv>

namespace quire::server {
namespace {

using formats::Json;

// Softmax gives such a token nothing, whatever the others are.
constexpr double kForbidden = -1e9;
constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr size_t kMostSaltBytes = 256;

std::optional<int32_t> parse_id(std::string_view text) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

void read_logit_bias(Fields& fields, int32_t vocab, engine::SamplingOptions& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->as_object()->size() > kMostBiases) {
    return fields.fail("logit_bias", fmt::format("it must have at most {} tokens.", kMostBiases));
  }
  for (const auto& [name, value] : *biases->as_object()) {
    const std::optional<int32_t> id = parse_id(name);
    if (!id || *id < 0 || *id >= vocab) {
      return fields.fail("logit_bias",
                         fmt::format("its keys must be ids of tokens, from 0 to {}.", vocab - 1));
    }
    const std::optional<double> bias = value.as_double();
    if (!bias || !(*bias >= -100.0 && *bias <= 100.0)) {
      return fields.fail("logit_bias", "its values must be numbers from -100 to 100.");
    }
    sampling.logit_bias.emplace_back(TokenId{*id}, *bias);
  }
}

/// The same when the server itself has a limit.
std::optional<int64_t> limited_max_tokens(Fields& fields, std::optional<int64_t> most) {
  const std::optional<int64_t> asked = read_max_tokens(fields);
  if (!asked || !most || *asked <= *most) return asked ? asked : most;
  fields.fail(
      fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens",
      fmt::format("this server generates at most {} tokens a request, not {}.", *most, *asked));
  return std::nullopt;
}

void read_stream_options(Fields& fields, GenerationParams& params) {
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!params.stream) {
    return fields.fail("stream_options", "it is allowed only when 'stream' is true.");
  }
  Fields inner(*options, "stream_options.");
  params.include_usage = inner.boolean("include_usage").value_or(false);
  if (inner.error()) fields.fail(*inner.error());
}

}  // namespace

engine::SamplingOptions sampling_defaults(const engine::Model& model) {
  const engine::SamplingDefaults& files = model.sampling_defaults();
  engine::SamplingOptions s;
  s.temperature = files.temperature.value_or(s.temperature);
  s.top_k = files.top_k.value_or(s.top_k);
  s.top_p = files.top_p.value_or(s.top_p);
  s.min_p = files.min_p.value_or(s.min_p);
  s.repeat_penalty = files.repeat_penalty.value_or(s.repeat_penalty);
  return s;
}

std::vector<TokenId> all_end_tokens(const engine::Model& model) {
  std::vector<TokenId> ends;
  for (int32_t id = 0; id < model.tokenizer().vocab_size(); ++id) {
    if (model.is_end_of_generation(TokenId{id})) ends.push_back(TokenId{id});
  }
  return ends;
}

std::optional<int64_t> read_max_tokens(Fields& fields) {
  const auto old_name = fields.integer("max_tokens", 1, kMostTokens);
  const auto new_name = fields.integer("max_completion_tokens", 1, kMostTokens);
  return new_name ? new_name : old_name;
}

void read_sampling(Fields& fields, engine::SamplingOptions& s) {
  s.temperature = fields.number("temperature", 0.0, 2.0).value_or(s.temperature);
  s.min_p = fields.number("min_p", 0.0, 1.0).value_or(s.min_p);
  s.presence_penalty = fields.number("presence_penalty", -2.0, 2.0).value_or(s.presence_penalty);
  s.frequency_penalty = fields.number("frequency_penalty", -2.0, 2.0).value_or(s.frequency_penalty);
  for (const std::string_view name : {"repetition_penalty", "repeat_penalty"}) {
    s.repeat_penalty = fields.number(name, 0.01, 10.0).value_or(s.repeat_penalty);
  }
  if (const auto k = fields.integer("top_k", -1, INT32_MAX)) {
    s.top_k = static_cast<int32_t>(std::max<int64_t>(*k, 0));  // -1 is vLLM's "no limit"
  }
  if (const auto p = fields.number("top_p", 0.0, 1.0)) {
    s.top_p = *p;
    if (*p == 0.0) {  // nothing but the likeliest
      s.top_p = 1.0;
      s.top_k = 1;
    }
  }
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    s.seed = static_cast<uint64_t>(*seed);
  }
}

std::vector<std::string> read_stops(Fields& fields) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return {};
  std::vector<std::string> stops;
  if (const std::string* one = stop->as_string()) {
    stops.push_back(*one);
  } else if (const Json* several = fields.array("stop", kMostStops)) {
    for (const Json& each : *several->as_array()) {
      if (!each.is_string()) {
        fields.fail("stop", fmt::format("its elements must be strings, not {}.", kind_of(each)));
        return {};
      }
      stops.push_back(*each.as_string());
    }
  }
  for (const std::string& each : stops) {
    if (!each.empty() && each.size() <= kMostStopBytes) continue;
    fields.fail("stop", fmt::format("each stop string must have 1 to {} bytes.", kMostStopBytes));
    return {};
  }
  return stops;
}

GenerationParams read_generation(Fields& fields, const GenerationDefaults& defaults) {
  GenerationParams params;
  engine::GenerateOptions& options = params.options;
  options.sampling = defaults.sampling;
  options.sampling.seed = defaults.seed;
  read_sampling(fields, options.sampling);
  read_logit_bias(fields, defaults.vocab, options.sampling);
  options.max_tokens = limited_max_tokens(fields, defaults.max_output);
  options.stop = read_stops(fields);
  if (fields.boolean("ignore_eos").value_or(false)) {
    for (const TokenId end : defaults.end_tokens) {
      options.sampling.logit_bias.emplace_back(end, kForbidden);
    }
  }
  params.choices = static_cast<int32_t>(fields.integer("n", 1, kMostChoices).value_or(1));
  params.stream = fields.boolean("stream").value_or(false);
  read_stream_options(fields, params);
  params.return_progress = fields.boolean("return_progress").value_or(false);
  params.return_tokens = fields.boolean("return_tokens").value_or(false);
  if (!fields.boolean("cache_prompt").value_or(true)) params.reuse = engine::PrefixReuse::kOff;
  params.salt = fields.text("cache_salt", kMostSaltBytes).value_or("");
  return params;
}

}  // namespace quire::server
