// summary_writer.h: a model that writes summaries for the context window.
//
// Greedy, so that the same text gives the same summary. Uses the engine's pages between two answers
// and returns them. One thread, the engine's.
#pragma once
#include <functional>
#include <memory>

#include "context/window/map_reduce_summarizer.h"
#include "engine/engine.h"
#include "engine/model.h"

namespace quire::engine {

/// Below so many parameters extraction beats what a model writes.
inline constexpr int64_t kLeastParametersToSummarise = 1'000'000'000;

/// Weights of the model, as far as its configuration says it: rows of matrices, not bytes.
bool writes_summaries_well(const Model& model);

class SummaryWriter : public context::window::TextWriter {
 public:
  /// Requires a model with a chat template. `go_on` is asked while it reads and writes; false ends
  /// it with kInterrupted. Both must outlive it.
  SummaryWriter(const Model& model, Engine& engine, std::function<bool()> go_on)
      : model_(model), engine_(engine), go_on_(std::move(go_on)) {}

  Result<std::string> write(std::string_view instruction, std::string_view text,
                            int64_t max_tokens) override;
  int64_t most_input_tokens() const override;

 private:
  const Model& model_;
  Engine& engine_;
  std::function<bool()> go_on_;
};

}  // namespace quire::engine
