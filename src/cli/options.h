// options.h: the options that mean the same in every command, in groups.
//
// A command declares the groups it has; what it does not declare is an unknown option, and what a
// later strategy will bring is refused in a sentence: nothing is ever silently ignored. Plain data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/option_parser.h"
#include "context/window/policy.h"
#include "engine/draft_policy.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/sampler.h"

namespace quire::cli {

struct OutputOptions {
  bool json = false;
  std::string file;  // -o; empty: stdout
  bool verbose = false;
  bool quiet = false;
};

struct ModelOptions {
  std::vector<std::string> models;  // positional or -m
  std::optional<std::string> chat_template_file;
  std::optional<model::RopeStretch> rope_stretch;
};

struct ComputeOptions {
  std::optional<int64_t> threads;
  std::optional<int64_t> context;
  kernels::ActivationPolicy activations = kernels::ActivationPolicy::kInt8;
  int64_t prefill_chunk = 512;
};

struct CacheOptions {
  engine::CachePolicy cache;
  kv::KvCodecs kv;
  std::optional<std::string> spill_dir = std::nullopt;
};

struct PromptOptions {
  enum class Rendering : uint8_t { kDefault, kRaw, kPlain, kTemplate };
  struct Piece {
    enum class Kind : uint8_t { kText, kFile };
    Kind kind;
    std::string content;  // the text, or the file's name
  };
  std::vector<Piece> pieces;  // in the order given
  std::optional<std::string> system;
  std::optional<std::string> messages_file;
  std::vector<std::pair<std::string, std::string>> template_kwargs;
  std::optional<std::string> prefix_file;
  Rendering rendering = Rendering::kDefault;
  bool no_special = false;

  bool raw() const { return rendering == Rendering::kRaw || rendering == Rendering::kPlain; }
};

struct SamplingChoice {
  std::optional<double> temperature, top_p, min_p, repeat_penalty, presence_penalty,
      frequency_penalty;
  std::optional<int64_t> top_k;
  std::vector<std::pair<TokenId, double>> logit_bias;
  int64_t seed = 0;
};

struct GenerationOptions {
  std::optional<int64_t> max_tokens;
  bool fit_output = false;
  std::optional<context::window::Policy> overflow;  // absent: reject
  std::vector<std::string> stop;
  int64_t draft = engine::DraftOptions().most;
};

void declare(OptionParser& parser, OutputOptions& options);
void declare(OptionParser& parser, ModelOptions& options, size_t most_models = 1);
void declare(OptionParser& parser, ComputeOptions& options);
/// --draft
void declare_draft(OptionParser& parser, int64_t& most);
/// --profile
void declare_profile(OptionParser& parser, bool& wanted);
void declare(OptionParser& parser, CacheOptions& options);
/// Only how keys and values are stored.
void declare_kv(OptionParser& parser, kv::KvCodecs& codecs);
void declare(OptionParser& parser, PromptOptions& options);
void declare(OptionParser& parser, SamplingChoice& options);
void declare(OptionParser& parser, GenerationOptions& options);
/// Only what begins a conversation: system message, saved messages, template variables, prefix.
void declare_conversation(OptionParser& parser, PromptOptions& options);
/// For commands that never draw: --temp 0 is accepted, anything else refused.
void declare_greedy(OptionParser& parser);
/// Only which text is the prompt: for commands without messages.
void declare_text(OptionParser& parser, PromptOptions& options);

/// One more way of keeping keys and values, as --cache says it.
ApplyOption append_cache(std::vector<engine::CachePolicy>& target);
/// A list of them: "f32,f16/bf16".
ApplyOption store_kv_list(std::vector<kv::KvCodecs>& target);
/// What --overflow says.
ApplyOption store_policy(std::optional<context::window::Policy>& target);
/// One codec ("f16") or two ("f16/bf16"); refuses in a sentence.
Result<kv::KvCodecs> parse_kv(std::string_view option, std::string_view value);

/// What was given, else what the model's files ask for, else Quire's defaults.
engine::SamplingOptions resolve_sampling(const SamplingChoice& choice,
                                         const engine::SamplingDefaults& defaults);

}  // namespace quire::cli
