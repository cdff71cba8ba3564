// beam_options.h: --beams and what belongs to it.
//
// Plain data and pure functions.
#pragma once
#include <cstdint>
#include <optional>

#include "cli/options.h"
#include "engine/beam_rules.h"

namespace quire::cli {

struct BeamOptions {
  std::optional<int64_t> beams;
  std::optional<double> length_penalty;
  std::optional<engine::EarlyStopping> early_stopping;
};

void declare(OptionParser& parser, BeamOptions& options);

/// The search that is asked for; nothing without --beams. kUsage, naming the option, for what
/// contradicts a search: it draws nothing, and gives its own N answers.
Result<std::optional<engine::BeamRules>> beam_rules(const BeamOptions& options,
                                                    const SamplingChoice& sampling,
                                                    int64_t choices);

}  // namespace quire::cli
