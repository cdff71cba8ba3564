// safetensors_parser.h: one safetensors file's bytes into checked tensors.
//
// Reads the JSON header itself: Json keeps the last of equal names, where here a duplicate is an
// attack, and its tree of a large header would take more memory than a hostile file may cost us
// (4 times its size plus 16 MB). Plain functions; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/tensor_info.h"

namespace quire::formats {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr size_t kMaxSafetensors = 65'536;

/// Reads a whole file. The result is views into `bytes`; `path` names the file in errors. Names are
/// not yet checked to differ: TensorTable does that over all files.
Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> bytes,
                                                  const std::string& path);

}  // namespace quire::formats
