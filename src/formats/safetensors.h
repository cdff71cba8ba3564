// safetensors.h: safetensors files, mapped and checked.
//
// The header is hostile until proven otherwise: its length and nesting are bounded, duplicate names
// are refused, and the tensors must tile the data exactly, without hole or overlap, as the format
// demands. F32, F16 and BF16 are read; other element types are listed but not readable.
// Format: https://github.com/huggingface/safetensors, "Format".
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "formats/tensor_table.h"

namespace quire::formats {

/// Opens these files as one set of tensors, whose names must be unique over all of them.
Result<TensorTable> open_safetensors(FileSystem& files, const std::vector<std::string>& paths);

}  // namespace quire::formats
