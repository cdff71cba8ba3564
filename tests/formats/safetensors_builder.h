// safetensors_builder.h: writes small safetensors files, true or lying, for tests and fuzzing
// seeds.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/gguf_builder.h"

namespace quire::formats {

/// A file of any header text and data.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  std::string out;
  append_number<uint64_t>(out, header.size());
  return out.append(header).append(data);
}

/// Header text of one tensor.
inline std::string safetensors_entry(std::string_view name, std::string_view dtype,
                                     std::string_view shape, std::string_view offsets) {
  std::string out = "\"";
  out.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":[").append(shape);
  return out.append("],\"data_offsets\":[").append(offsets).append("]}");
}

/// A valid file of one tensor: 8 numbers of F32.
inline std::string safetensors_of(std::string_view name) {
  return safetensors_file("{" + safetensors_entry(name, "F32", "2,4", "0,32") + "}",
                          std::string(32, 'd'));
}

/// A valid file with readable, unreadable and empty tensors and metadata.
inline std::string sample_safetensors() {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\":\"\"}, " +
                             safetensors_entry("model.norm.weight", "F32", "4", "0,16") + ", " +
                             safetensors_entry("model.q.weight", "BF16", "3, 4", "24, 48") + ",\n" +
                             safetensors_entry("position_ids", "I64", "1", "16,24") + "," +
                             safetensors_entry("nothing", "F16", "0,5", "48,48") + "}   ";
  return safetensors_file(header,
                          std::string(16, 'n') + std::string(8, 'p') + std::string(24, 'q'));
}

}  // namespace quire::formats
