// describe.h: what a model's files are and what is wrong with them, without loading weights.
//
// Works from headers alone, also for files whose weights are cut off or missing and for
// architectures that Quire does not run: then it still lists what the files hold. What is doubtful
// becomes a warning, a sentence each; only files that cannot be opened at all are an error.
// Pure but for reading the files.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "context/chat_template.h"
#include "engine/model.h"
#include "formats/model_files.h"
#include "model/config.h"

namespace quire::engine {

struct TokenizerDescription {
  std::string kind;  // "bpe (pre smollm)"
  int32_t vocab = 0;
  std::string bos, eos;  // as they are spelled; empty: none
  std::vector<std::string> ends;
  bool adds_bos = false;
  bool adds_eos = false;
};

struct ModelDescription {
  std::string path;
  std::string format;        // "gguf", "huggingface"
  std::string architecture;  // as the files call it; empty if they do not say
  std::vector<std::string> files;
  uint64_t file_bytes = 0;
  int64_t parameters = 0;
  uint64_t weights_bytes = 0;
  std::map<std::string, int64_t> tensors;    // how many of each type: "q4_1", "f32"
  std::optional<model::ModelConfig> config;  // absent: Quire cannot run it, a warning says why
  std::optional<TokenizerDescription> tokenizer;
  std::optional<context::TemplateTraits> chat_template;
  SamplingDefaults sampling;
  std::vector<std::string> warnings;
};

Result<ModelDescription> describe_model(FileSystem& files, const std::string& path);

/// The same for files that are open already.
ModelDescription describe_model(const formats::ModelFiles& files);

/// The context that the model was trained for; nothing if the files do not say it, or describe a
/// model that Quire does not run.
std::optional<int64_t> trained_context(const formats::ModelFiles& files);

}  // namespace quire::engine
