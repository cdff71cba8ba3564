// plan: what a model needs and what fits, before anything is downloaded.
#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "base/byte_size.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/session.h"
#include "formats/printable.h"
#include "plan/chart.h"
#include "plan/config_reader.h"
#include "plan/source.h"
#include "plan/what_if.h"

namespace quire::cli {
namespace {

struct PlanOptions {
  std::vector<std::string> models;
  plan::BareNumbers numbers;
  std::vector<int64_t> contexts;
  std::optional<int64_t> mean_context;
  int64_t sequences = 1;
  int64_t beams = 1;
  int64_t shared = 0;
  kv::KvCodecs kv;
  plan::CacheStrategy cache;
  const plan::WeightMix* weights = nullptr;
  std::optional<int64_t> memory;
  std::optional<int64_t> threads;
  int64_t prefill_chunk = ComputeOptions{}.prefill_chunk;
  std::string svg;
  OutputOptions output;
};

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

ApplyOption store_bytes(std::optional<int64_t>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    target = parse_byte_size(value);
    if (target && *target > 0) return {};
    return usage(fmt::format("{} wants a size such as 24G or 24GB, not '{}'", option,
                             formats::printable(value)));
  };
}

/// "7B", "494M" or a whole number.
ApplyOption store_parameters(std::optional<int64_t>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    std::string_view digits = value;
    double factor = 1.0;
    for (const auto& [unit, times] : {std::pair{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}}) {
      if (digits.empty() || std::toupper(static_cast<unsigned char>(digits.back())) != unit) {
        continue;
      }
      digits.remove_suffix(1);
      factor = times;
      break;
    }
    const auto number = parse_number(digits);
    if (!number || !(*number * factor >= 1.0 && *number * factor < 1e16)) {
      return usage(fmt::format("{} wants a number such as 7.6B, not '{}'", option,
                               formats::printable(value)));
    }
    target = static_cast<int64_t>(*number * factor);
    return {};
  };
}

Result<void> parse_weights(const plan::WeightMix*& target, std::string_view option,
                           std::string_view value) {
  target = plan::find_weight_mix(value);
  if (target != nullptr) return {};
  std::string known;
  for (const plan::WeightMix& mix : plan::weight_mixes()) {
    known += (known.empty() ? "" : ", ") + std::string(mix.name);
  }
  return usage(
      fmt::format("{} does not know '{}'; known: {}", option, formats::printable(value), known));
}

Result<void> parse_sliding(plan::CacheStrategy& cache, std::string_view option,
                           std::string_view value) {
  const size_t plus = value.find('+');
  const auto window = parse_int(value.substr(0, plus));
  const auto sinks = plus == std::string_view::npos ? std::optional<int64_t>(0)
                                                    : parse_int(value.substr(plus + 1));
  if (!window || !sinks || *window < 1 || *window > INT_MAX / 2 || *sinks < 0 ||
      *sinks > INT_MAX / 2) {
    return usage(fmt::format("{} sliding wants sliding:WINDOW or sliding:WINDOW+SINKS, not '{}'",
                             option, formats::printable(value)));
  }
  cache.window_tokens = *window;
  cache.sink_tokens = *sinks;
  return {};
}

Result<void> parse_cache_part(plan::CacheStrategy& cache, std::string_view option,
                              std::string_view part) {
  const size_t colon = part.find(':');
  const std::string_view kind = part.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? "" : part.substr(colon + 1);
  if (kind == "dynamic" || kind == "paged") return {};
  if (kind == "static") {
    cache.reserves_all = true;
    return {};
  }
  if (kind == "none") {
    cache.recomputes = true;
    return {};
  }
  if (kind == "sliding") return parse_sliding(cache, option, value);
  if (kind == "offloaded") return store_bytes(cache.resident_bytes)("--cache offloaded:", value);
  if (kind == "quantized")
    return usage(fmt::format("{} quantized: choose a codec by --kv", option));
  if (kind == "prefix") {
    return usage(fmt::format("{} prefix: say how many tokens are shared by --shared", option));
  }
  return usage(
      fmt::format("{} wants dynamic, static, sliding:WINDOW[+SINKS], offloaded:BYTES or "
                  "none, not '{}'",
                  option, formats::printable(part)));
}

void declare_numbers(OptionParser& parser, plan::BareNumbers& n) {
  parser.heading("Bare numbers, instead of a model");
  parser.add({{"--layers"}, "N", "layers that cache", store_int(n.layers, 1, plan::kMaxLayers)});
  parser.add(
      {{"--kv-heads"}, "N", "kv heads of a layer", store_int(n.kv_heads, 1, plan::kMaxHeads)});
  parser.add({{"--head-dim"}, "N", "dimensions of a head", store_int(n.head_dim, 1, 65536)});
  parser.add(
      {{"--value-dim"}, "N", "of a value, if they differ", store_int(n.value_dim, 1, 65536)});
  parser.add({{"--heads"}, "N", "query heads", store_int(n.heads, 1, plan::kMaxHeads)});
  parser.add({{"--hidden"}, "N", "width of the stream", store_int(n.hidden, 1, plan::kMaxWidth)});
  parser.add({{"--ffn"}, "N", "width of the feed-forward", store_int(n.ffn, 1, plan::kMaxWidth)});
  parser.add(
      {{"--vocab"}, "N", "tokens of the vocabulary", store_int(n.vocab, 1, plan::kMaxVocab)});
  parser.add({{"--window"}, "N", "tokens that a layer sees", store_int(n.window, 1, INT_MAX)});
  parser.add({{"--window-every"},
              "N",
              "every N-th layer sees everything",
              store_int(n.window_every, 1, plan::kMaxLayers)});
  parser.add({{"--parameters"},
              "N",
              "such as 7.6B, instead of what the widths add up to",
              store_parameters(n.parameters)});
}

void declare_load(OptionParser& parser, PlanOptions& o) {
  parser.heading("What is wanted");
  parser.add({{"-c", "--context", "--ctx", "--ctx-size"},
              "N[,N...]",
              "tokens of a sequence (default: what the model was trained for); several compare",
              store_list(o.contexts, 1, kv::kMaxTokens)});
  parser.add({{"--mean-context"},
              "N",
              "tokens of a sequence on average (default: --context)",
              store_int(o.mean_context, 1, kv::kMaxTokens)});
  parser.add({{"--sequences", "-np", "--parallel"},
              "N",
              "sequences at the same time (default 1)",
              store_int(o.sequences, 1, plan::kMaxSequences)});
  parser.add({{"--beams"}, "N", "beams of each (default 1)", store_int(o.beams, 1, 4096)});
  parser.add({{"--shared"},
              "N",
              "tokens at the start that all sequences have in common",
              store_int(o.shared, 0, kv::kMaxTokens)});
  parser.add({{"--memory"},
              "BYTES",
              "what may be taken, such as 24G (default: what is free here); exit 4 if it does not "
              "suffice",
              store_bytes(o.memory)});
}

void declare_storage(OptionParser& parser, PlanOptions& o) {
  parser.heading("How it is stored");
  declare_kv(parser, o.kv);
  parser.add({{"--weights"},
              "TYPE",
              "what the weights will be stored in: q4_k_m, q8_0, ... (default: as they are)",
              [&o](std::string_view option, std::string_view value) {
                return parse_weights(o.weights, option, value);
              }});
  parser.add({{"--cache"},
              "KIND",
              "dynamic (default), static, sliding:WINDOW[+SINKS], offloaded:BYTES, none; combined "
              "with commas",
              [&o](std::string_view option, std::string_view value) -> Result<void> {
                for (const std::string_view part : split(value, ',')) {
                  QUIRE_TRY_VOID(parse_cache_part(o.cache, option, part));
                }
                return {};
              }});
  parser.add({{"--prefill-chunk", "-ub", "--ubatch-size"},
              "N",
              "tokens of prompt read at once (default 512)",
              store_int(o.prefill_chunk, 1, 65536)});
  parser.add({{"-t", "--threads"},
              "N",
              "threads (default: the physical cores this process may use)",
              store_int(o.threads, 1, 1024)});
}

Result<plan::ModelShape> find_shape(const Environment& env, const PlanOptions& o) {
  if (o.models.empty()) {
    if (o.numbers.any()) return plan::shape_of_numbers(o.numbers);
    return usage(
        "which model? 'quire plan MODEL': a GGUF file or its header, a Hugging Face folder, a "
        "config.json; or give numbers: --layers, --kv-heads, --head-dim ('quire plan --help')");
  }
  if (o.numbers.any()) {
    return usage(
        fmt::format("{} and --layers, --kv-heads, --head-dim were both given: leave one "
                    "out",
                    o.models.front()));
  }
  QUIRE_TRY(const std::string path, only_model(env, o.models, "plan"));
  return plan::shape_of_path(env.files, path);
}

/// What is missing for the engine: notes that stand beside the plan.
void note_what_differs(const plan::ModelShape& shape, const plan::PlanRequest& request,
                       std::vector<std::string>& notes) {
  if (shape.context > 0 && request.context > shape.context) {
    notes.push_back(fmt::format("{} tokens are beyond the {} that the model was trained for",
                                format_count(request.context), format_count(shape.context)));
  }
  if (request.weights != nullptr && shape.weights.empty()) {
    notes.push_back("--weights changes nothing: the weights' shapes are not known");
  }
  if (request.beams > 1) {
    notes.push_back(
        "beams are counted as whole sequences: sharing the prompt's pages, they need "
        "less; say how many tokens by --shared");
  }
  if (request.shared > 0 && request.cache.reserves_all) {
    notes.push_back("a static cache reserves every sequence whole: --shared saves nothing");
  }
}

Result<plan::PlanRequest> make_request(const Environment& env, const PlanOptions& o,
                                       const plan::ModelShape& shape,
                                       std::vector<std::string>& notes) {
  plan::PlanRequest r{.mean_context = o.mean_context,
                      .sequences = o.sequences,
                      .beams = o.beams,
                      .shared = o.shared,
                      .kv = o.kv,
                      .cache = o.cache,
                      .weights = o.weights,
                      .prefill_chunk = o.prefill_chunk};
  const Machine machine = inspect_machine(env.files);
  r.threads = o.threads.value_or(machine.default_threads);
  r.memory = o.memory.value_or(machine.available_memory_bytes);
  constexpr int64_t kFallbackContext = 4096;
  if (!o.contexts.empty()) {
    r.context = *std::ranges::max_element(o.contexts);
  } else if (shape.context > 0) {
    r.context = shape.context;
  } else {
    r.context = std::max(kFallbackContext, o.mean_context.value_or(0));
    notes.push_back(
        fmt::format("no trained length is known: planned for {} tokens; say another by "
                    "--context",
                    format_count(r.context)));
  }
  QUIRE_TRY_VOID(plan::check_request(r));
  return r;
}

Result<void> run_plan(const Command& self, const Environment& env,
                      std::span<const std::string> args) {
  PlanOptions o;
  OptionParser parser("quire plan");
  parser.positional(o.models, 1);
  parser.heading("Model");
  parser.add({{"-m", "--model"},
              "MODEL",
              "the model, instead of the first argument: a GGUF file or its header, a Hugging Face "
              "folder, any JSON configuration, or a name in $QUIRE_HOME/models",
              append(o.models)});
  declare_load(parser, o);
  declare_storage(parser, o);
  declare_numbers(parser, o.numbers);
  parser.heading("Picture");
  parser.add({{"--svg"}, "FILE", "draw memory against context, per codec", store(o.svg)});
  declare(parser, o.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};

  Output output(env, o.output);
  warn_of_coarse_codecs(output, o.kv);
  QUIRE_TRY(const plan::ModelShape shape, find_shape(env, o));
  std::vector<std::string> notes = shape.notes;
  QUIRE_TRY(const plan::PlanRequest request, make_request(env, o, shape, notes));
  note_what_differs(shape, request, notes);
  std::ranges::sort(o.contexts);
  const plan::MemoryPlan planned = plan::plan_memory(shape, request);
  for (std::string& change : plan::cheapest_changes(shape, request)) {
    notes.push_back(std::move(change));
  }
  const PlanReport report{.shape = shape,
                          .request = request,
                          .plan = planned,
                          .contexts = o.contexts,
                          .memory_given = o.memory.has_value(),
                          .notes = std::move(notes)};
  if (!o.svg.empty()) {
    QUIRE_TRY_VOID(env.files.write_atomically(o.svg, plan::memory_chart(shape, request)));
  }
  output.text(plan_text(report));
  QUIRE_TRY_VOID(output.finish(plan_json(report)));
  if (!o.memory || planned.total <= request.memory) return {};
  return Error{
      ErrorCode::kDoesNotFit,
      fmt::format("{} are needed, {} more than --memory {}", format_bytes(planned.total),
                  format_bytes(planned.total - request.memory), format_bytes(request.memory))};
}

}  // namespace

const Command kPlanCommand = {
    .name = "plan",
    .arguments = "MODEL|CONFIG.json [options]",
    .summary = "what a model needs, and what fits, before anything is downloaded",
    .example =
        "  quire plan config.json --weights q4_k_m --memory 24G --sequences 50\n"
        "  quire plan --layers 28 --kv-heads 4 --head-dim 128 --context 32768 --kv f16\n",
    .run = run_plan,
};

}  // namespace quire::cli
