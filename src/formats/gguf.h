// gguf.h: GGUF files, version 2 and 3, single or split, mapped and checked.
//
// The file is hostile until proven otherwise: every count, length, dimension, offset and the
// alignment is checked before use, tensors lie inside the file and do not overlap, keys and tensor
// names are unique. Opening allocates at most 4 times the file's size plus 16 MB and copies neither
// strings nor weights. Errors are one sentence naming the file and the key or tensor.
// Immutable after open(); any thread. Format: ggml's docs/gguf.md.
#pragma once
#include <span>
#include <string>
#include <utility>

#include "base/file_system.h"
#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "formats/open_mode.h"
#include "formats/tensor_table.h"

namespace quire::formats {

class GgufFile {
 public:
  /// Opens `path`; if it is the first file of a split set, opens the whole set by its name pattern
  /// (NAME-00001-of-0000N.gguf). A later file of a set is refused with the name of the first.
  static Result<GgufFile> open(FileSystem& files, const std::string& path,
                               OpenMode mode = OpenMode::kWeights);

  /// Whether a file that starts with these bytes claims to be GGUF.
  static bool has_magic(std::span<const std::byte> bytes);

  /// Of the first file, where a split set keeps it.
  const GgufMetadata& metadata() const { return metadata_; }
  const TensorTable& tensors() const { return tensors_; }
  /// Why parts of a set are not here, if only metadata was wanted; else empty.
  const std::string& missing() const { return missing_; }

  /// The same, moved out. The metadata's views need the tensors' mappings: keep both together.
  GgufMetadata take_metadata() && { return std::move(metadata_); }
  TensorTable take_tensors() && { return std::move(tensors_); }

 private:
  GgufFile() = default;
  GgufMetadata metadata_;  // views into the mappings that tensors_ owns
  TensorTable tensors_;
  std::string missing_;
};

}  // namespace quire::formats
