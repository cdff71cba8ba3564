// ggml_type.h: the tensor types that GGUF files name by number, those Quire cannot read included.
//
// The unreadable ones are known so that an error can name them and a file's layout can be checked.
// A constant table; any thread. Source: ggml.h `enum ggml_type` and the block structs of
// ggml-common.h.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/element_type.h"

namespace quire::formats {

struct GgmlType {
  uint32_t id;
  std::string_view name;            // lower case: "iq2_xs"
  uint32_t block_elements;          // 0: withdrawn from the format, its layout is unknown
  uint32_t block_bytes;             // 0 likewise
  std::optional<ElementType> type;  // nothing: Quire does not read it
};

/// The type with that number, or nullptr if no version of ggml known here has it.
const GgmlType* find_ggml_type(uint32_t id);

/// The type that Quire calls `type`.
const GgmlType& ggml_type_of(ElementType type);

}  // namespace quire::formats
