// hf_config.h: the hyperparameters of a Hugging Face config.json that all architectures spell
// alike.
//
// Understands both generations of RoPE fields: rope_theta with rope_scaling, and rope_parameters
// (possibly one a layer type). A missing or mistyped key gives a sentence that names it, and so
// does a value that Quire does not run. Pure functions over a Json that must outlive the reader.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/json.h"
#include "model/config.h"

namespace quire::model {

class HfConfig {
 public:
  /// `json` is the object that holds the text model's numbers (text_config, where there is one).
  explicit HfConfig(const formats::Json& json) : json_(json) {}

  Result<int32_t> require_int(std::string_view key) const;
  /// `fallback` also stands for an explicit null.
  Result<int32_t> int_or(std::string_view key, int32_t fallback) const;
  Result<double> number_or(std::string_view key, double fallback) const;
  Result<bool> bool_or(std::string_view key, bool fallback) const;
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const;
  /// The member, unless absent or null.
  const formats::Json* find(std::string_view key) const;

  /// One number a layer or more; nothing if absent.
  Result<std::optional<std::vector<int32_t>>> ints(std::string_view key) const;

  /// Refuses the file unless `key` (default: `expected`) is `expected`.
  Result<void> expect_text(std::string_view key, std::string_view expected) const;
  Result<void> expect_flag(std::string_view key, bool expected) const;

  /// Fills layers, sizes, heads, vocabulary, context, norm epsilon.
  Result<ModelConfig> common() const;

  /// Which layers have a sliding window, as layer_types says; nothing if it says nothing.
  Result<std::optional<std::vector<bool>>> window_layers(int32_t num_layers) const;

  /// The rotation of layers of `layer_type` ("full_attention", "sliding_attention").
  Result<RopeConfig> rope(std::string_view layer_type, int32_t head_dim) const;

 private:
  Result<RopeConfig> scaled_rope(const formats::Json& fields, double theta, int32_t head_dim) const;
  Result<RopeConfig> yarn(const HfConfig& fields, RopeConfig rope) const;
  Result<RopeConfig> long_rope(const HfConfig& fields, RopeConfig rope) const;
  /// Where RoPE's scaling starts: at top level, in `fields`, or all of the context.
  Result<double> original_context(const HfConfig& fields) const;
  Result<std::vector<float>> floats(std::string_view key) const;

  const formats::Json& json_;
};

}  // namespace quire::model
