// gguf_parser.h: one GGUF file's bytes into checked metadata and tensors.
//
// Used by GgufFile, which knows about files and split sets. The limits bound what a hostile header
// can make us allocate: with them, and every count held against the bytes that are left, parsing
// stays below 4 times the file plus 16 MB. Plain functions; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "formats/open_mode.h"
#include "formats/tensor_info.h"

namespace quire::formats {

/// The largest known models have about 60 keys and 2,000 tensors a file.
inline constexpr uint64_t kMaxGgufKeys = 16'384;
inline constexpr uint64_t kMaxGgufTensors = 65'536;

struct ParsedGguf {
  GgufMetadata metadata;
  std::vector<TensorInfo> tensors;  // not yet checked for equal names
};

/// Reads a whole file. The result is views into `bytes`; `path` names the file in errors.
Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes, const std::string& path,
                              OpenMode mode);

}  // namespace quire::formats
