// session.h: a loaded model with an engine on it, as a command's options ask.
//
// Plain functions. A Session's engine refers to its model: keep them together.
#pragma once
#include <memory>
#include <string>

#include "base/machine.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "engine/engine.h"
#include "engine/model.h"

namespace quire::cli {

struct LoadedModel {
  std::unique_ptr<engine::Model> model;
  double load_ms = 0.0;

  PromptMaker prompt_maker() const {
    return {model->tokenizer(), model->chat_template(), model->template_problem()};
  }
};

/// The text of --chat-template FILE, if given.
Result<std::optional<std::string>> read_chat_template(const Environment& env,
                                                      const ModelOptions& options);

/// Loads the one model of `command`, with progress; Ctrl-C stops it.
Result<LoadedModel> load_model(const Environment& env, const ModelOptions& options,
                               std::string_view command, Output& output);

/// The file's or folder's name, without what stands before it.
std::string model_name(const engine::Model& model);

/// Memory that keys, values and scratch may take: what is free now but for a small reserve.
int64_t cache_budget(const Machine& machine);

/// The machine's cores and free memory, as the options and the moment have it.
engine::EngineOptions engine_options(const Environment& env, const ComputeOptions& compute,
                                     const CacheOptions& cache);

/// A remark when keys or values are kept in so few bits that answers change for the worse.
void warn_of_coarse_codecs(Output& output, kv::KvCodecs codecs);

/// A remark when more threads are asked for than this process may run at once.
void warn_of_many_threads(const Environment& env, Output& output, const ComputeOptions& compute);

/// Milliseconds since it was made.
class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace quire::cli
