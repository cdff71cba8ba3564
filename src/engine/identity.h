// identity.h: the identity key of what an engine caches (law 2).
//
// Pure; what is expensive is computed when first asked for, and refers to the model until then.
#pragma once
#include "engine/engine.h"
#include "engine/model.h"
#include "kv/identity_key.h"

namespace quire::engine {

/// `model` must outlive the key and its copies.
kv::IdentityKey identity_key(const Model& model, const EngineOptions& options);

}  // namespace quire::engine
