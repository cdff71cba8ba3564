#include "cli/beam_options.h"

#include <fmt/format.h>

#include "formats/printable.h"

namespace quire::cli {
namespace {

using engine::EarlyStopping;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

Result<void> store_early_stopping(std::optional<EarlyStopping>& target, std::string_view value) {
  if (value.empty() || value == "true") {
    target = EarlyStopping::kYes;
  } else if (value == "false") {
    target = EarlyStopping::kNo;
  } else if (value == "never") {
    target = EarlyStopping::kNever;
  } else {
    return usage(
        fmt::format("--early-stopping stands alone, or is --early-stopping=true, =false "
                    "or =never, not '{}'",
                    formats::printable(value)));
  }
  return {};
}

/// The first option that changes how tokens are drawn.
std::optional<std::string_view> drawing_option(const SamplingChoice& sampling) {
  if (sampling.temperature.value_or(0.0) != 0.0) return "--temp";
  if (sampling.top_k) return "--top-k";
  if (sampling.top_p) return "--top-p";
  if (sampling.min_p) return "--min-p";
  if (sampling.repeat_penalty) return "--repeat-penalty";
  if (sampling.presence_penalty) return "--presence-penalty";
  if (sampling.frequency_penalty) return "--frequency-penalty";
  if (!sampling.logit_bias.empty()) return "--logit-bias";
  return std::nullopt;
}

}  // namespace

void declare(OptionParser& parser, BeamOptions& options) {
  parser.heading("Beam search");
  parser.add({{"--beams"},
              "N",
              "search the likeliest answer with N beams that share pages; draws nothing",
              store_int(options.beams, 1, engine::kMostBeams)});
  parser.add({{"--length-penalty"},
              "A",
              "an answer's score is its log-probability / length^A (default 1; above 0 favours "
              "long answers)",
              store_number(options.length_penalty)});
  parser.add({{"--early-stopping"},
              "[WHEN]",
              "end with the first N answers; =never: only when no better one can come (default: "
              "when none is likely to)",
              [&options](std::string_view, std::string_view value) {
                return store_early_stopping(options.early_stopping, value);
              }});
}

Result<std::optional<engine::BeamRules>> beam_rules(const BeamOptions& options,
                                                    const SamplingChoice& sampling,
                                                    int64_t choices) {
  if (!options.beams) {
    if (options.length_penalty) return usage("--length-penalty needs --beams N");
    if (options.early_stopping) return usage("--early-stopping needs --beams N");
    return std::optional<engine::BeamRules>();
  }
  if (choices > 1) {
    return usage("--beams gives its N best answers itself: leave out --choices");
  }
  if (const auto drawing = drawing_option(sampling)) {
    return usage(
        fmt::format("--beams draws nothing, it weighs the model's own probabilities: "
                    "leave out {}",
                    *drawing));
  }
  engine::BeamRules rules{.beams = static_cast<int32_t>(*options.beams)};
  rules.length_penalty = options.length_penalty.value_or(rules.length_penalty);
  rules.early_stopping = options.early_stopping.value_or(rules.early_stopping);
  QUIRE_TRY_VOID(engine::check_beams(rules));
  return std::optional(rules);
}

}  // namespace quire::cli
