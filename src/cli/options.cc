#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>

#include "formats/printable.h"

namespace quire::cli {
namespace {

using formats::printable;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

ApplyOption add_piece(PromptOptions& options, PromptOptions::Piece::Kind kind) {
  return [&options, kind](std::string_view, std::string_view value) -> Result<void> {
    options.pieces.push_back({kind, std::string(value)});
    return {};
  };
}

ApplyOption set_rendering(PromptOptions& options, PromptOptions::Rendering rendering) {
  return [&options, rendering](std::string_view option, std::string_view) -> Result<void> {
    if (options.rendering != PromptOptions::Rendering::kDefault && options.rendering != rendering) {
      return usage(
          fmt::format("{} contradicts another of --raw, --plain, --template; give one", option));
    }
    options.rendering = rendering;
    return {};
  };
}

Result<void> parse_kwarg(PromptOptions& options, std::string_view option, std::string_view value) {
  const size_t equals = value.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    return usage(fmt::format("{} wants NAME=VALUE, not '{}'", option, printable(value)));
  }
  options.template_kwargs.emplace_back(value.substr(0, equals), value.substr(equals + 1));
  return {};
}

Result<void> parse_logit_bias(SamplingChoice& options, std::string_view option,
                              std::string_view value) {
  const size_t equals = value.find('=');
  const auto id = parse_int(value.substr(0, equals));
  const auto bias = equals == std::string_view::npos ? std::optional<double>()
                                                     : parse_number(value.substr(equals + 1));
  if (!id || !bias || *id < 0 || *id > INT_MAX) {
    return usage(
        fmt::format("{} wants TOKEN_ID=BIAS such as 42=-5.5, not '{}'", option, printable(value)));
  }
  options.logit_bias.emplace_back(TokenId{static_cast<int32_t>(*id)}, *bias);
  return {};
}

Result<void> parse_cache(CacheOptions& options, std::string_view option, std::string_view value) {
  auto policy = engine::parse_cache_policy(value);
  if (!policy) return usage(fmt::format("{}: {}", option, policy.error().message));
  options.cache = *std::move(policy);
  return {};
}

Result<kv::Codec> parse_codec(std::string_view option, std::string_view value) {
  if (const auto codec = kv::codec_from_name(value)) return *codec;
  return usage(
      fmt::format("{} wants f16, f32, bf16, q8, q6, q4 or q3, or a pair of them such as "
                  "q6/q4, not '{}'",
                  option, printable(value)));
}

ApplyOption store_codec(kv::Codec& codec) {
  return [&codec](std::string_view option, std::string_view value) -> Result<void> {
    QUIRE_TRY(codec, parse_codec(option, value));
    return {};
  };
}

Result<void> parse_activations(ComputeOptions& options, std::string_view option,
                               std::string_view value) {
  if (value != "int8" && value != "f32") {
    return usage(fmt::format("{} wants int8 or f32, not '{}'", option, printable(value)));
  }
  options.activations =
      value == "f32" ? kernels::ActivationPolicy::kF32 : kernels::ActivationPolicy::kInt8;
  return {};
}

}  // namespace

ApplyOption store_policy(std::optional<context::window::Policy>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    target = context::window::policy_of(value);
    if (target) return {};
    return usage(fmt::format("{} wants one of {}, not '{}'", option,
                             context::window::policy_names(), printable(value)));
  };
}

Result<kv::KvCodecs> parse_kv(std::string_view option, std::string_view value) {
  const size_t slash = value.find('/');
  QUIRE_TRY(const kv::Codec k, parse_codec(option, value.substr(0, slash)));
  if (slash == std::string_view::npos) return kv::KvCodecs{k, k};
  QUIRE_TRY(const kv::Codec v, parse_codec(option, value.substr(slash + 1)));
  return kv::KvCodecs{k, v};
}

ApplyOption append_cache(std::vector<engine::CachePolicy>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    CacheOptions options;
    QUIRE_TRY_VOID(parse_cache(options, option, value));
    target.push_back(std::move(options.cache));
    return {};
  };
}

ApplyOption store_kv_list(std::vector<kv::KvCodecs>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    target.clear();
    for (const std::string_view part : split(value, ',')) {
      QUIRE_TRY(const kv::KvCodecs codecs, parse_kv(option, part));
      target.push_back(codecs);
    }
    return {};
  };
}

void declare_greedy(OptionParser& parser) {
  parser.add({{"--temp", "--temperature"},
              "0",
              "",
              [](std::string_view option, std::string_view value) -> Result<void> {
                if (parse_number(value) == 0.0) return {};
                return usage(fmt::format("{} {}: this command never draws; leave it out", option,
                                         printable(value)));
              }});
}

void declare(OptionParser& parser, OutputOptions& options) {
  parser.heading("Output");
  parser.add({{"--json"}, "", "print one JSON document on stdout", set(options.json)});
  parser.add({{"-o", "--output"}, "FILE", "write to FILE instead of stdout", store(options.file)});
  parser.add({{"-v", "--verbose"}, "", "say more on stderr", set(options.verbose)});
  parser.add({{"-q", "--quiet"}, "", "say nothing on stderr but errors", set(options.quiet)});
}

void declare(OptionParser& parser, ModelOptions& options, size_t most_models) {
  parser.positional(options.models, most_models);
  parser.heading("Model");
  parser.add({{"-m", "--model"},
              "MODEL",
              "the model, instead of the first argument: a GGUF file, a Hugging Face folder, or a "
              "name in $QUIRE_HOME/models",
              append(options.models)});
  parser.add({{"--chat-template", "--chat-template-file"},
              "FILE",
              "a Jinja template instead of the model's own",
              store(options.chat_template_file)});
  if (most_models == 1) {
    parser.add({{"--rope-scaling"},
                "yarn:F|linear:F",
                "stretch the model to F times its trained length, at some cost in quality",
                [&options](std::string_view, std::string_view value) -> Result<void> {
                  QUIRE_TRY(options.rope_stretch, model::parse_rope_stretch(value));
                  return {};
                }});
  }
  parser.add(
      {{"-ngl", "--n-gpu-layers", "--gpu-layers"},
       "N",
       "",
       refuse("Quire runs on the CPU only, so no layers can be put on a GPU; leave it out")});
  parser.add({{"--lora", "--lora-scaled"},
              "FILE",
              "",
              refuse("adapters are not supported; merge it into the model first")});
}

void declare(OptionParser& parser, ComputeOptions& options) {
  parser.heading("Computing");
  parser.add({{"-t", "--threads"},
              "N",
              "threads (default: the physical cores this process may use)",
              store_int(options.threads, 1, 1024)});
  parser.add({{"-c", "--ctx", "--context", "--ctx-size"},
              "N",
              "the window in tokens (default: what the model was trained for)",
              store_int(options.context, 1, INT32_MAX)});
  parser.add({{"--prefill-chunk", "-ub", "--ubatch-size"},
              "N",
              "tokens of prompt read at once (default 512; changes no bit of any result)",
              store_int(options.prefill_chunk, 1, 65536)});
  parser.add({{"--act"},
              "int8|f32",
              "activations that quantized weights meet (default int8; f32 is slow, for checks)",
              [&options](std::string_view option, std::string_view value) {
                return parse_activations(options, option, value);
              }});
}

void declare_profile(OptionParser& parser, bool& wanted) {
  parser.add({{"--profile"},
              "",
              "show where the time of the forward passes went, step by step",
              set(wanted)});
}

void declare(OptionParser& parser, CacheOptions& options) {
  parser.heading("Cache");
  parser.add({{"--cache"},
              "KIND",
              "dynamic (default), static, sliding:WINDOW[+SINKS], offloaded:BYTES, or none: "
              "recompute everything at each step, the reference; combined with commas",
              [&options](std::string_view option, std::string_view value) {
                return parse_cache(options, option, value);
              }});
  parser.add({{"--spill-dir"},
              "DIR",
              "where an offloaded cache keeps what does not fit (default $QUIRE_HOME/spill)",
              store(options.spill_dir)});
  declare_kv(parser, options.kv);
}

void declare_kv(OptionParser& parser, kv::KvCodecs& codecs) {
  parser.add({{"--kv", "--cache-type"},
              "CODEC",
              "how keys and values are stored: f16 (default), f32, bf16, q8, q6, q4, q3; K/V as in "
              "q6/q4",
              [&codecs](std::string_view option, std::string_view value) -> Result<void> {
                QUIRE_TRY(codecs, parse_kv(option, value));
                return {};
              }});
  parser.add({{"--kv-k", "-ctk", "--cache-type-k"},
              "CODEC",
              "the same for keys only",
              store_codec(codecs.k)});
  parser.add({{"--kv-v", "-ctv", "--cache-type-v"},
              "CODEC",
              "the same for values only",
              store_codec(codecs.v)});
}

void declare_text(OptionParser& parser, PromptOptions& options) {
  using Kind = PromptOptions::Piece::Kind;
  using Rendering = PromptOptions::Rendering;
  parser.heading("Prompt (from stdin when none is given)");
  parser.add({{"-p", "--prompt"},
              "TEXT",
              "text; may repeat and mix with -f: joined in order by a blank line",
              add_piece(options, Kind::kText)});
  parser.add({{"-f", "--file"},
              "FILE",
              "the bytes of a file as they are; - is stdin",
              add_piece(options, Kind::kFile)});
  parser.add({{"--raw"},
              "",
              "no template; control tokens spelled out in the text are parsed",
              set_rendering(options, Rendering::kRaw)});
  parser.add({{"--plain"},
              "",
              "no template; text that looks like control tokens is plain text",
              set_rendering(options, Rendering::kPlain)});
  parser.add({{"--template"},
              "",
              "render the text with the model's chat template, as one user message",
              set_rendering(options, Rendering::kTemplate)});
  parser.add({{"--no-special"},
              "",
              "without a template: add no BOS and no EOS token",
              set(options.no_special)});
}

void declare(OptionParser& parser, PromptOptions& options) {
  declare_text(parser, options);
  declare_conversation(parser, options);
}

void declare_conversation(OptionParser& parser, PromptOptions& options) {
  parser.add({{"--system", "-sys"}, "TEXT", "a system message", store(options.system)});
  parser.add({{"--messages"},
              "FILE",
              "a conversation: {\"messages\": [...], \"tools\"?: [...]} or a bare array",
              store(options.messages_file)});
  parser.add({{"--template-kwargs", "--chat-template-kwargs"},
              "K=V",
              "a variable for the chat template, such as enable_thinking=false; may repeat",
              [&options](std::string_view option, std::string_view value) {
                return parse_kwarg(options, option, value);
              }});
  parser.add({{"--prefix-file"},
              "FILE",
              "a text put at the head of the first user message",
              store(options.prefix_file)});
}

void declare(OptionParser& parser, SamplingChoice& options) {
  parser.heading("Sampling (defaults: what the model's files ask for, else those shown)");
  parser.add({{"--temp", "--temperature"},
              "T",
              "temperature (0.8); 0 always takes the likeliest token",
              store_number(options.temperature)});
  parser.add({{"--top-k"},
              "N",
              "draw from the N likeliest tokens (40; 0: from all)",
              store_int(options.top_k, 0, INT32_MAX)});
  parser.add({{"--top-p"},
              "P",
              "draw from the likeliest tokens that together have P (0.95)",
              store_number(options.top_p)});
  parser.add({{"--min-p"},
              "P",
              "draw from tokens at least P times as likely as the likeliest (0.05)",
              store_number(options.min_p)});
  parser.add({{"--repeat-penalty"},
              "X",
              "divide the odds of tokens seen lately (1: off)",
              store_number(options.repeat_penalty)});
  parser.add({{"--presence-penalty"},
              "X",
              "lower each token seen lately once (0: off)",
              store_number(options.presence_penalty)});
  parser.add({{"--frequency-penalty"},
              "X",
              "lower each token for every time it was seen lately (0: off)",
              store_number(options.frequency_penalty)});
  parser.add({{"--logit-bias"},
              "ID=B",
              "add B to a token's logit; may repeat",
              [&options](std::string_view option, std::string_view value) {
                return parse_logit_bias(options, option, value);
              }});
  parser.add({{"-s", "--seed"},
              "N",
              "draws depend on this, the choice and the position only (0)",
              store_int(options.seed, 0, INT64_MAX)});
}

void declare_draft(OptionParser& parser, int64_t& most) {
  parser.add({{"--draft"},
              "N",
              "guess up to N tokens ahead from the text so far and verify them in one step, where "
              "that pays (default 8; 0: never); changes no bit",
              store_int(most, 0, engine::kMostDrafts)});
}

void declare(OptionParser& parser, GenerationOptions& options) {
  parser.heading("Length");
  parser.add({{"-n", "--predict", "--n-predict", "--max-tokens"},
              "N",
              "new tokens at most (default: until a stop or the window's end)",
              store_int(options.max_tokens, 1, INT32_MAX)});
  parser.add({{"--stop", "-r", "--reverse-prompt"},
              "TEXT",
              "stop before this text; may repeat",
              [&options](std::string_view option, std::string_view value) -> Result<void> {
                if (value.empty()) return usage(fmt::format("{} wants a text", option));
                options.stop.emplace_back(value);
                return {};
              }});
  declare_draft(parser, options.draft);
  parser.add({{"--fit-output"},
              "",
              "lower -n to what the window has room for, and say so",
              set(options.fit_output)});
  parser.add({{"--overflow"},
              "POLICY",
              "what to do with a prompt that does not fit: reject (default), truncate_left, "
              "truncate_right, head_tail, summarize, retrieve, auto",
              store_policy(options.overflow)});
}

engine::SamplingOptions resolve_sampling(const SamplingChoice& choice,
                                         const engine::SamplingDefaults& defaults) {
  engine::SamplingOptions s;
  s.temperature = choice.temperature.value_or(defaults.temperature.value_or(s.temperature));
  s.top_k = choice.top_k ? static_cast<int32_t>(*choice.top_k) : defaults.top_k.value_or(s.top_k);
  s.top_p = choice.top_p.value_or(defaults.top_p.value_or(s.top_p));
  s.min_p = choice.min_p.value_or(defaults.min_p.value_or(s.min_p));
  s.repeat_penalty =
      choice.repeat_penalty.value_or(defaults.repeat_penalty.value_or(s.repeat_penalty));
  s.presence_penalty = choice.presence_penalty.value_or(s.presence_penalty);
  s.frequency_penalty = choice.frequency_penalty.value_or(s.frequency_penalty);
  s.logit_bias = choice.logit_bias;
  s.seed = static_cast<uint64_t>(choice.seed);
  return s;
}

}  // namespace quire::cli
