#include "engine/identity.h"

#include "engine/kv_plan.h"
#include "model/rope.h"
#include "model/weights_digest.h"

namespace quire::engine {
namespace {

void add(DigestBuilder& builder, const std::vector<float>& numbers) {
  builder.add_number(numbers.size());
  builder.add(std::as_bytes(std::span(numbers)));
}

/// All that decides how keys are rotated, where the numbers come from the file or the user.
Digest rope_digest(const model::ModelConfig& config, int64_t window_tokens) {
  DigestBuilder builder;
  for (const model::RopeConfig& rope : config.ropes) {
    builder.add_number(rope.scaling);
    builder.add_number(rope.dims);
    for (const double number :
         {rope.theta, rope.factor, rope.low_freq_factor, rope.high_freq_factor,
          rope.original_context, rope.beta_fast, rope.beta_slow, rope.magnitude}) {
      builder.add_number(number);
    }
    builder.add_number(rope.whole_pairs);
    add(builder,
        model::takes_long_factors(rope, window_tokens) ? rope.long_divisors : rope.divisors);
  }
  for (const model::LayerConfig& layer : config.layers) builder.add_number(layer.rope);
  return builder.finish();
}

Digest weights_digest(const Model& model) {
  DigestBuilder builder;
  for (const Digest& part : {model.description(), model::digest(model.weights())}) {
    builder.add_number(part.low);
    builder.add_number(part.high);
  }
  return builder.finish();
}

/// Every angle of every position: two math libraries need not round all of them alike.
Digest rope_table_digest(const model::ModelConfig& config, int64_t window_tokens) {
  DigestBuilder builder;
  for (const model::RopeConfig& rope_config : config.ropes) {
    const model::Rope rope(rope_config, window_tokens);
    const auto half = static_cast<size_t>(rope.half());
    std::vector<float> cos(half), sin(half);
    for (int32_t position = 0; position < config.context; ++position) {
      rope.angles({&position, 1}, cos, sin);
      builder.add(std::as_bytes(std::span(cos)));
      builder.add(std::as_bytes(std::span(sin)));
    }
  }
  return builder.finish();
}

}  // namespace

kv::IdentityKey identity_key(const Model& model, const EngineOptions& options) {
  kv::IdentityKey key;
  key.layers = kv_layers(model.config(), options.cache.sliding);
  const int64_t window = options.context_tokens.value_or(model.config().context);
  key.weights = kv::LazyDigest([&model] { return weights_digest(model); });
  key.rope = rope_digest(model.config(), window);
  key.rope_table =
      kv::LazyDigest([&model, window] { return rope_table_digest(model.config(), window); });
  key.codecs = options.kv;
  key.activations = static_cast<int32_t>(options.activations);
  return key;
}

}  // namespace quire::engine
