// gguf_keys.h: the hyperparameters of GGUF metadata that all architectures spell alike.
//
// Keys are "ARCH.rest"; a missing or mistyped one gives a sentence that names it. Pure functions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "model/config.h"

namespace quire::model {

class GgufKeys {
 public:
  GgufKeys(const formats::GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  Result<int32_t> require_int(std::string_view key) const;
  Result<int32_t> int_or(std::string_view key, int32_t fallback) const;
  Result<double> require_number(std::string_view key) const;
  Result<double> number_or(std::string_view key, double fallback) const;
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const;

  /// Fills layers, sizes, heads, vocabulary, context and norm epsilon; refuses experts and heads
  /// that differ from layer to layer.
  Result<ModelConfig> common() const;
  /// theta, dims and scaling (none or linear) of the global layers.
  Result<RopeConfig> rope(int32_t head_dim) const;

 private:
  /// A count that may be given once or once a layer, then all alike.
  Result<int32_t> uniform(std::string_view key, std::optional<int32_t> fallback) const;

  const formats::GgufMetadata& metadata_;
  std::string prefix_;
};

}  // namespace quire::model
