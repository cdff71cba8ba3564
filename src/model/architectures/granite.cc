// granite: llama with multipliers of embedding, attention, residual and logits. // IBM Granite 3
#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

constexpr std::array<std::string_view, 1> kHfTypes = {"granite"};

struct Multipliers {
  double embedding;
  double attention;
  double residual;
  double logits_divisor;
};

ModelConfig with_multipliers(ModelConfig c, const Multipliers& m) {
  c.embedding_scale = static_cast<float>(m.embedding);
  c.attention_scale = static_cast<float>(m.attention);
  c.residual_scale = static_cast<float>(m.residual);
  c.logit_scale = static_cast<float>(1.0 / m.logits_divisor);
  return c;
}

/// The converter leaves out multipliers that are zero or absent.
Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "granite"));
  const GgufKeys keys(*files.gguf(), "granite");
  Multipliers m{};
  QUIRE_TRY(m.embedding, keys.number_or("embedding_scale", 1.0));
  QUIRE_TRY(m.attention, keys.number_or("attention.scale", double{c.attention_scale}));
  QUIRE_TRY(m.residual, keys.number_or("residual_scale", 1.0));
  QUIRE_TRY(m.logits_divisor, keys.number_or("logit_scale", 1.0));
  return with_multipliers(std::move(c), m);
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, usual_hf(config, "granite"));
  Multipliers m{};
  QUIRE_TRY(m.embedding, config.number_or("embedding_multiplier", 1.0));
  QUIRE_TRY(m.attention, config.number_or("attention_multiplier", 1.0));
  QUIRE_TRY(m.residual, config.number_or("residual_multiplier", 1.0));
  QUIRE_TRY(m.logits_divisor, config.number_or("logits_scaling", 1.0));
  return with_multipliers(std::move(c), m);
}

}  // namespace

const Architecture kGranite = {
    .name = "granite",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLlamaTensors,
    .gguf_permutes_qk = true,
};

}  // namespace quire::model
