// model_files.h: everything that a model's files hold, behind one interface.
//
// A model is a GGUF file (or the first of a split set), or a Hugging Face folder with config.json
// and safetensors; which one is told by content, not by name. What the numbers in the metadata mean
// is the model layer's business. Owns the mappings: every view and pointer it returns is valid
// until it is destroyed. Move-only. Thread rule: const functions may run on any thread.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "formats/json.h"
#include "formats/open_mode.h"
#include "formats/tensor_table.h"

namespace quire::formats {

/// A text file's content, mapped. Move-only.
class MappedText {
 public:
  explicit MappedText(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}
  std::string_view text() const {
    return {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  }

 private:
  std::unique_ptr<MappedFile> file_;
};

class ModelFiles {
 public:
  enum class Kind { kGguf, kHuggingFace };

  /// Opens a GGUF file, a Hugging Face folder, a folder whose only model is one GGUF file, or a
  /// model's folder in the hub's cache (its snapshot of refs/main, or the only one). With
  /// kMetadataOnly a folder may lack weights (tensors() is then empty) and config.json.
  /// `files` must outlive the result.
  static Result<ModelFiles> open(FileSystem& files, const std::string& path,
                                 OpenMode mode = OpenMode::kWeights);

  ModelFiles(ModelFiles&&) = default;
  ModelFiles& operator=(ModelFiles&&) = default;

  Kind kind() const { return kind_; }
  /// The GGUF file (inside the folder, if a folder was given) or the folder.
  const std::string& path() const { return path_; }
  /// The files that hold tensors.
  const std::vector<std::string>& files() const { return tensors_.files(); }
  /// What is missing or damaged although metadata could be read, a sentence; empty if nothing is.
  /// Always empty if weights were wanted.
  const std::string& missing() const { return missing_; }
  /// Their sizes together.
  uint64_t total_bytes() const { return tensors_.total_bytes(); }

  std::span<const TensorInfo> tensors() const { return tensors_.tensors(); }
  /// The tensor of that name, or nullptr.
  const TensorInfo* find(std::string_view name) const { return tensors_.find(name); }
  /// Lets the system drop the tensor's mapped pages from memory.
  void release(const TensorInfo& tensor) const { tensors_.release(tensor); }

  /// The metadata of a GGUF file; nullptr for a folder.
  const GgufMetadata* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  /// config.json of a folder; nullptr for GGUF, or if it is missing and only metadata was wanted.
  const Json* config() const { return config_ ? &*config_ : nullptr; }
  /// generation_config.json of a folder; nullptr if it has none.
  const Json* generation_config() const {
    return generation_config_ ? &*generation_config_ : nullptr;
  }

  /// Another file of the folder, such as tokenizer.json; nothing if there is none. A GGUF file has
  /// no siblings: what lies beside it may belong to another model.
  Result<std::optional<MappedText>> read_sibling(std::string_view name) const;

 private:
  ModelFiles() = default;
  static Result<ModelFiles> open_gguf(FileSystem& files, const std::string& path, OpenMode mode);
  static Result<ModelFiles> open_folder(FileSystem& files, const std::string& path, OpenMode mode);

  Kind kind_ = Kind::kGguf;
  std::string path_;
  FileSystem* files_ = nullptr;
  std::optional<GgufMetadata> gguf_;  // views into the mappings that tensors_ owns
  std::optional<Json> config_;
  std::optional<Json> generation_config_;
  TensorTable tensors_;
  std::string missing_;
};

}  // namespace quire::formats
