#include "engine/identity.h"

#include "engine/kv_plan.h"

namespace quire::engine {

kv::IdentityKey identity_key(const Model& model, const EngineOptions& options) {
  kv::IdentityKey key;
  key.layers = kv_layers(model.config(), options.cache.sliding);
  key.codecs = options.kv;
  key.activations = static_cast<int32_t>(options.activations);
  return key;
}

}  // namespace quire::engine
