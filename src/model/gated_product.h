// gated_product.h: the gate and up products of many rows, activated and quantized on the way.
//
// What gate and up give is wide: written out for all rows and read again it costs more than its
// arithmetic. Here each thread takes some columns of both, keeps their results near, and leaves
// only the int8 form that the next product reads. Same functions of the same numbers as one after
// the other, hence the same bits. Functions without state; the thread pool is the caller's.
#pragma once
#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/config.h"
#include "model/weights.h"

namespace quire::model {

struct GatedProduct {
  const FfnWeights& weights;
  FfnActivation activation;
  kernels::Activations& x;  // [num_rows, hidden], in the forms that gate and up need
  int64_t num_rows;
  kernels::ActivationPolicy policy;
  kernels::Activations& activated;  // [num_rows, ffn]; its form per 32 is made, the others are not
};

/// Whether `rows` rows of this block are worth it, and the next product reads the form per 32 only.
bool suits_gated_product(const FfnWeights& weights, FfnActivation activation,
                         kernels::ActivationPolicy policy, int64_t rows);

/// Requires suits_gated_product().
void multiply_gated(const kernels::KernelSet& kernels, ThreadPool& threads, const GatedProduct& p);

}  // namespace quire::model
