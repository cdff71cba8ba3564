// kv_error.h: how much each codec of keys and values changes a model's answers, and which ones a
// plan compares.
//
// Pure functions.
#pragma once
#include <optional>
#include <span>

#include "kv/codec.h"

namespace quire::plan {

/// The pairs of the what-if table, finest first.
std::span<const kv::KvCodecs> usual_codecs();

/// Mean KL divergence of the next token to f16 pages, measured on SmolLM2-135M (docs/numerics.md);
/// nothing if that pair was not measured.
std::optional<double> measured_kl(kv::KvCodecs codecs);

/// Bits of a key and a value together.
int32_t code_bits(kv::KvCodecs codecs);

}  // namespace quire::plan
