// model.h: a model loaded from its files: numbers, weights, tokenizer, chat template.
//
// Immutable after loading, so any number of engines and threads may share one. Everything the files
// say about how to use the model (sampling defaults, ends of generation) is here too.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/hash.h"
#include "base/result.h"
#include "context/chat_template.h"
#include "context/tokenizer.h"
#include "formats/model_files.h"
#include "model/config.h"
#include "model/rope_stretch.h"
#include "model/weights.h"

namespace quire::engine {

/// What generation_config.json asks for; absent fields leave Quire's own defaults.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repeat_penalty;
};

struct ModelOptions {
  /// Jinja source that replaces the file's own template.
  std::optional<std::string> chat_template;
  /// Runs the model beyond its trained length.
  std::optional<model::RopeStretch> rope_stretch;
  model::LoadProgress progress;
  int32_t num_threads = 0;  // that lay out the weights; 0: the machine's default
};

/// Tokenizer, template and defaults of a model, without its weights.
struct ModelText {
  std::unique_ptr<context::Tokenizer> tokenizer;
  std::optional<context::ChatTemplate> chat_template;
  /// Why there is no template although the file holds one; empty otherwise.
  std::string template_problem;
  SamplingDefaults sampling;
  /// Ends of an answer that only the template knows, ascending.
  std::vector<TokenId> end_of_turn;
};

/// Reads only what counting tokens needs: tokenizer files or a GGUF header.
Result<ModelText> load_model_text(const formats::ModelFiles& files,
                                  const std::optional<std::string>& chat_template);

class Model {
 public:
  /// Loads everything. `files` is used during the call only.
  static Result<std::unique_ptr<Model>> load(FileSystem& files, const std::string& path,
                                             const ModelOptions& options);

  const std::string& path() const { return path_; }
  const model::ModelConfig& config() const { return config_; }
  const model::Weights& weights() const { return weights_; }
  const context::Tokenizer& tokenizer() const { return *text_.tokenizer; }
  /// How config() was stretched beyond the model's own numbers, if it was.
  const std::optional<model::RopeStretch>& rope_stretch() const { return rope_stretch_; }
  /// nullptr if the model has none that can be used.
  const context::ChatTemplate* chat_template() const {
    return text_.chat_template ? &*text_.chat_template : nullptr;
  }
  const std::string& template_problem() const { return text_.template_problem; }
  const SamplingDefaults& sampling_defaults() const { return text_.sampling; }
  /// Tokens at which an answer ends: those the tokenizer names, and what the template puts after an
  /// assistant's turn.
  bool is_end_of_generation(TokenId token) const;
  int64_t weights_bytes() const { return weights_bytes_; }
  /// Of the files' metadata but for names and tokens: the numbers that the weights are used with.
  Digest description() const { return description_; }

 private:
  Model() = default;

  std::string path_;
  model::ModelConfig config_;
  std::optional<model::RopeStretch> rope_stretch_;
  model::Weights weights_;
  ModelText text_;
  int64_t weights_bytes_ = 0;
  Digest description_;
};

}  // namespace quire::engine
