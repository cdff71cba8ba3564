// walk_everything.h: reads all that an opened file offers, through every getter.
//
// What a parser lets pass must be usable without a crash: fuzzers and hostile-file tests call this
// on every file that opens. Keeps no state.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/element_type.h"
#include "formats/gguf_metadata.h"
#include "formats/tensor_table.h"

namespace quire::formats {

template <class... Ts>
void convert_to_each(const GgufValue& value) {
  (static_cast<void>(convert<Ts>(value).ok()), ...);
}

inline void walk_tensors(const TensorTable& table) {
  for (const TensorInfo& tensor : table.tensors()) {
    QUIRE_CHECK(table.find(tensor.name) == &tensor, "every tensor is found by its name");
    QUIRE_CHECK(num_elements(tensor) >= 0, "the shape was checked");
    QUIRE_CHECK(tensor.bytes.empty() || tensor.bytes.size() == tensor.num_bytes, "all or nothing");
    if (const auto type = readable_type(tensor); type.ok()) {
      const auto elements = static_cast<uint64_t>(num_elements(tensor));
      QUIRE_CHECK(stored_bytes(*type, elements) == tensor.num_bytes, "shape and bytes agree");
    }
    unsigned sum = 0;
    for (const std::byte b : tensor.bytes) sum += static_cast<unsigned>(b);
    QUIRE_CHECK(sum <= 255ull * tensor.bytes.size(), "reads every byte");
    table.release(tensor);
  }
  QUIRE_CHECK(table.find("no tensor has this name") == nullptr, "names are compared whole");
}

inline void walk_everything(const GgufMetadata& metadata, const TensorTable& table) {
  for (const GgufValue& value : metadata.values()) {
    QUIRE_CHECK(metadata.find(value.key) == &value, "every key is found");
    QUIRE_CHECK(!describe(value).empty(), "every value has a description");
    convert_to_each<bool, int32_t, uint32_t, int64_t, uint64_t, float, double, std::string_view,
                    std::vector<bool>, std::vector<int32_t>, std::vector<float>,
                    std::vector<std::string_view>>(value);
  }
  walk_tensors(table);
}

}  // namespace quire::formats
