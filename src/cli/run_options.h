// run_options.h: what `run` is asked for.
//
// Plain data, filled by the option parser in run_command.cc.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cli/beam_options.h"
#include "cli/document_retrieval.h"
#include "cli/options.h"

namespace quire::cli {

struct RunOptions {
  ModelOptions model;
  PromptOptions prompt;
  GenerationOptions generation;
  SamplingChoice sampling;
  CacheOptions cache;
  ComputeOptions compute;
  bool profile = false;
  OutputOptions output;
  int64_t choices = 1;
  BeamOptions beams;
  std::optional<int64_t> logprobs;
  std::optional<std::string> batch_file;
  DocumentOptions documents;
  std::optional<std::string> json_schema_file;  // which the answer must satisfy
  std::optional<std::string> conversation;      // the name of a stored one
};

}  // namespace quire::cli
