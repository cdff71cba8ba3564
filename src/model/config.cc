#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

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

Result<void> check_divisors(const std::vector<float>& divisors, int32_t dims) {
  if (!divisors.empty() && static_cast<int32_t>(divisors.size()) != dims / 2) {
    return bad(fmt::format("the file has {} RoPE frequency factors for {} rotated pairs",
                           divisors.size(), dims / 2));
  }
  for (const float divisor : divisors) {
    if (divisor > 0 && std::isfinite(divisor)) continue;
    return bad(fmt::format("a RoPE frequency factor is {}", divisor));
  }
  return {};
}

Result<void> check_rope(const RopeConfig& rope, int32_t head_dim) {
  if (rope.dims < 2 || rope.dims % 2 != 0 || rope.dims > head_dim) {
    return bad(fmt::format("the model rotates {} of {} head dimensions, which cannot be", rope.dims,
                           head_dim));
  }
  const std::pair<const char*, double> numbers[] = {{"base", rope.theta},
                                                    {"factor", rope.factor},
                                                    {"original context", rope.original_context},
                                                    {"beta_fast", rope.beta_fast},
                                                    {"beta_slow", rope.beta_slow},
                                                    {"attention factor", rope.magnitude}};
  for (const auto& [name, value] : numbers) {
    if (value > 0 && std::isfinite(value)) continue;
    return bad(fmt::format("the model's RoPE {} is {}, no positive number", name, value));
  }
  if (rope.scaling == RopeScaling::kLlama3 && !(rope.high_freq_factor > rope.low_freq_factor)) {
    return bad(fmt::format("llama3 RoPE scaling needs low_freq_factor {} below high_freq_factor {}",
                           rope.low_freq_factor, rope.high_freq_factor));
  }
  if (rope.scaling == RopeScaling::kLongRope &&
      (rope.divisors.empty() || rope.long_divisors.empty())) {
    return bad("the model scales by LongRoPE, but its factors are missing");
  }
  QUIRE_TRY_VOID(check_divisors(rope.divisors, rope.dims));
  return check_divisors(rope.long_divisors, rope.dims);
}

Result<void> check_experts(const ModelConfig& c) {
  const ExpertConfig& e = c.experts;
  if (e.count == 0) return {};
  if (e.count < 1 || e.count > 4096 || e.per_token < 1 || e.per_token > e.count) {
    return bad(
        fmt::format("the model picks {} of {} experts, which cannot be", e.per_token, e.count));
  }
  if (e.ffn < 1 || e.ffn > 1 << 22 || e.shared_ffn < 0 || e.shared_ffn > 1 << 22) {
    return bad(
        fmt::format("the model's experts have feed-forward sizes {} and {}", e.ffn, e.shared_ffn));
  }
  if (!is_gated(c.activation)) {
    return bad("experts without a gate are not run");
  }
  return {};
}

Result<void> check_floats(const ModelConfig& c) {
  const std::pair<const char*, float> positive[] = {{"norm epsilon", c.norm_eps},
                                                    {"attention scale", c.attention_scale},
                                                    {"embedding scale", c.embedding_scale},
                                                    {"residual scale", c.residual_scale},
                                                    {"logit scale", c.logit_scale}};
  for (const auto& [name, value] : positive) {
    if (value > 0 && std::isfinite(value)) continue;
    return bad(fmt::format("the model's {} is {}, no positive number", name, value));
  }
  for (const float cap : {c.attention_soft_cap, c.logit_soft_cap}) {
    if (cap >= 0 && std::isfinite(cap)) continue;
    return bad(fmt::format("the model caps numbers softly at {}", cap));
  }
  return {};
}

}  // namespace

double yarn_magnitude(double factor) {
  return factor > 1.0 ? 0.1 * std::log(factor) + 1.0 : 1.0;
}

double long_rope_magnitude(double factor, double original_context) {
  return factor > 1.0 ? std::sqrt(1.0 + std::log(factor) / std::log(original_context)) : 1.0;
}

float usual_attention_scale(int32_t head_dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

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
  QUIRE_TRY_VOID(check_floats(c));
  QUIRE_TRY_VOID(check_experts(c));
  if (static_cast<int32_t>(c.layers.size()) != c.num_layers) {
    return bad(
        fmt::format("the model describes {} of its {} layers", c.layers.size(), c.num_layers));
  }
  for (const RopeConfig& rope : c.ropes) QUIRE_TRY_VOID(check_rope(rope, c.head_dim));
  for (const LayerConfig& layer : c.layers) {
    QUIRE_CHECK(layer.rope >= kNoRope && layer.rope < static_cast<int32_t>(c.ropes.size()),
                "a description named a rotation that it does not define");
    if (layer.window_tokens < 0) {
      return bad(fmt::format("the model's sliding window is {} tokens", layer.window_tokens));
    }
  }
  return c;
}

}  // namespace quire::model
