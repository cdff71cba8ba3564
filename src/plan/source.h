// source.h: the shape of whatever was pointed at: a model, a configuration alone, or bare numbers.
//
// Told by content, not by name: a GGUF file or its header alone, a Hugging Face folder with or
// without weights, any JSON configuration. For files with weights the parameters and bytes are
// those of the tensors. Reads headers only. Pure but for reading the files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "formats/model_files.h"
#include "plan/model_shape.h"

namespace quire::plan {

/// kNotFound, kBadFile or kUnsupported in one sentence that names the file and the key.
Result<ModelShape> shape_of_path(FileSystem& files, const std::string& path);

/// The shape that a GGUF file's header describes. Requires files.gguf().
Result<ModelShape> shape_of_gguf(const formats::ModelFiles& files);

/// What the tensors of these files weigh, in the files and in memory.
StoredWeights stored_weights(const formats::ModelFiles& files);

/// Numbers given by hand; absent ones are left out of the plan, which says so.
struct BareNumbers {
  std::optional<int64_t> layers = std::nullopt;
  std::optional<int64_t> kv_heads = std::nullopt;
  std::optional<int64_t> head_dim = std::nullopt;
  std::optional<int64_t> value_dim = std::nullopt;
  std::optional<int64_t> heads = std::nullopt;
  std::optional<int64_t> hidden = std::nullopt;
  std::optional<int64_t> ffn = std::nullopt;
  std::optional<int64_t> vocab = std::nullopt;
  std::optional<int64_t> window = std::nullopt;
  std::optional<int64_t> window_every = std::nullopt;
  /// Instead of what the others would add up to.
  std::optional<int64_t> parameters = std::nullopt;

  bool any() const { return layers || kv_heads || head_dim; }
};
Result<ModelShape> shape_of_numbers(const BareNumbers& numbers);

}  // namespace quire::plan
