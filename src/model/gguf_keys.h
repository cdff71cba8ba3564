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

  /// Fills layers, sizes, heads, context and norm epsilon (of that kind of norm); refuses heads
  /// that differ from layer to layer.
  Result<ModelConfig> common(NormKind norm = NormKind::kRms) const;
  /// theta, dims and scaling of the global layers. LongRoPE's factors are tensors: not here.
  Result<RopeConfig> rope(int32_t head_dim) const;
  /// The same rotation with LongRoPE's numbers.
  Result<RopeConfig> long_rope(RopeConfig rope) const;
  /// The numbers of experts; count 0 if the file has none.
  Result<ExpertConfig> experts(const ModelConfig& config) const;

 private:
  Result<RopeConfig> scaled(std::string_view type, RopeConfig rope) const;
  /// A count that may be given once or once a layer, then all alike.
  Result<int32_t> uniform(std::string_view key, std::optional<int32_t> fallback) const;

  const formats::GgufMetadata& metadata_;
  std::string prefix_;
};

}  // namespace quire::model
