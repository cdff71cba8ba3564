// smollm3: llama with layers that do not rotate, every fourth unless the file says which.
#include <fmt/format.h>

#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

constexpr std::array<std::string_view, 1> kHfTypes = {"smollm3"};
constexpr int32_t kInterval = 4;

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  QUIRE_TRY(ModelConfig c, usual_gguf(files, "smollm3"));
  for (size_t i = kInterval - 1; i < c.layers.size(); i += kInterval) c.layers[i].rope = kNoRope;
  return c;
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY(ModelConfig c, usual_hf(config, "smollm3"));
  if (config.find("rope_theta") == nullptr && config.find("rope_parameters") == nullptr) {
    c.ropes.front().theta = 2e6;
  }
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", true));
  QUIRE_TRY(const int32_t interval, config.int_or("no_rope_layer_interval", kInterval));
  QUIRE_TRY(const auto rotated, config.ints("no_rope_layers"));  // 1: the layer does rotate
  if (interval < 1 || (rotated && rotated->size() < c.layers.size())) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("config.json: no_rope_layers does not name each of {} layers, or "
                             "no_rope_layer_interval is {}",
                             c.layers.size(), interval)};
  }
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const bool rotates =
        rotated ? (*rotated)[i] != 0 : (i + 1) % static_cast<size_t>(interval) != 0;
    if (!rotates) c.layers[i].rope = kNoRope;
  }
  QUIRE_TRY(const bool windows, config.bool_or("use_sliding_window", false));
  if (!windows) return c;
  QUIRE_TRY(const int32_t tokens, config.require_int("sliding_window"));
  QUIRE_TRY(const auto types, config.window_layers(c.num_layers));
  return with_windows(std::move(c), tokens, [&](int32_t layer) {
    const auto i = static_cast<size_t>(layer);
    return types ? bool{(*types)[i]} : c.layers[i].rope == kNoRope;
  });
}

}  // namespace

const Architecture kSmolLm3 = {
    .name = "smollm3",
    .hf_types = kHfTypes,
    .from_gguf = from_gguf,
    .from_hf = from_hf,
    .layer_tensors = kLlamaTensors,
    .gguf_permutes_qk = true,
};

}  // namespace quire::model
