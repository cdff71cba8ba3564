#include "model/config.h"

#include <fmt/format.h>

#include <cmath>

namespace quire::model {
namespace {

Error bad(std::string message) {
  return {ErrorCode::kBadFile, std::move(message)};
}

struct Bound {
  const char* name;
  int64_t value;
  int64_t most;
};

Result<void> check_rope(const RopeConfig& rope, int32_t head_dim) {
  if (rope.dims < 2 || rope.dims % 2 != 0 || rope.dims > head_dim) {
    return bad(fmt::format("the model rotates {} of {} head dimensions, which cannot be", rope.dims,
                           head_dim));
  }
  const bool positive = rope.theta > 0 && rope.factor > 0 && rope.original_context > 0;
  if (!positive || !std::isfinite(rope.theta) || !std::isfinite(rope.factor)) {
    return bad(fmt::format("the model's RoPE base {} or factor {} is no positive number",
                           rope.theta, rope.factor));
  }
  if (rope.scaling == RopeScaling::kLlama3 && !(rope.high_freq_factor > rope.low_freq_factor)) {
    return bad(fmt::format("llama3 RoPE scaling needs low_freq_factor {} below high_freq_factor {}",
                           rope.low_freq_factor, rope.high_freq_factor));
  }
  if (!rope.divisors.empty() && static_cast<int32_t>(rope.divisors.size()) != rope.dims / 2) {
    return bad(fmt::format("the file has {} RoPE frequency factors for {} rotated pairs",
                           rope.divisors.size(), rope.dims / 2));
  }
  for (const float divisor : rope.divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) {
      return bad(fmt::format("a RoPE frequency factor is {}", divisor));
    }
  }
  return {};
}

}  // namespace

Result<ModelConfig> checked(ModelConfig c) {
  // Generous limits: far above any model, low enough that no product below overflows 64 bits.
  const Bound bounds[] = {
      {"layers", c.num_layers, 4096},        {"hidden size", c.hidden, 1 << 20},
      {"feed-forward size", c.ffn, 1 << 22}, {"heads", c.num_heads, 1 << 14},
      {"kv heads", c.num_kv_heads, 1 << 14}, {"head dimension", c.head_dim, 1024},
      {"vocabulary", c.vocab, 1 << 24},      {"context length", c.context, 1 << 30},
  };
  for (const Bound& b : bounds) {
    if (b.value < 1 || b.value > b.most) {
      return bad(fmt::format("the model claims {} = {}, which must be between 1 and {}", b.name,
                             b.value, b.most));
    }
  }
  if (c.num_heads % c.num_kv_heads != 0) {
    return bad(
        fmt::format("{} heads cannot share {} kv heads evenly", c.num_heads, c.num_kv_heads));
  }
  if (!(c.norm_eps > 0) || !std::isfinite(c.norm_eps)) {
    return bad(fmt::format("the model's norm epsilon is {}", c.norm_eps));
  }
  if (!(c.attention_scale > 0) || !std::isfinite(c.attention_scale)) {
    return bad(fmt::format("the model's attention scale is {}", c.attention_scale));
  }
  if (static_cast<int32_t>(c.layers.size()) != c.num_layers) {
    return bad(
        fmt::format("the model describes {} of its {} layers", c.layers.size(), c.num_layers));
  }
  for (const RopeConfig& rope : c.ropes) QUIRE_TRY_VOID(check_rope(rope, c.head_dim));
  for (const LayerConfig& layer : c.layers) {
    QUIRE_CHECK(layer.rope >= 0 && layer.rope < static_cast<int32_t>(c.ropes.size()),
                "a description named a rotation that it does not define");
    if (layer.window_tokens < 0) {
      return bad(fmt::format("the model's sliding window is {} tokens", layer.window_tokens));
    }
  }
  return c;
}

}  // namespace quire::model
