// weights_digest.h: a number that tells models apart by all their weights.
//
// Reads every weight once: some tenths of a second a gigabyte. Equal for equal weights on every
// machine of the same byte order, whatever file they came from. Pure; any thread.
#pragma once
#include "base/hash.h"
#include "model/weights.h"

namespace quire::model {

Digest digest(const Weights& weights);

}  // namespace quire::model
