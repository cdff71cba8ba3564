// matmul_group.h: matrix products that share their input, divided among threads as one job.
//
// Also which quantized forms of the input such a group needs. Functions without state; the thread
// pool is the caller's.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/thread_pool.h"
#include "kernels/kernel_set.h"

namespace quire::model {

/// Which int8 forms of an activation some products need.
struct QuantizedForms {
  bool per_32 = false;
  bool per_256 = false;
  bool none() const { return !per_32 && !per_256; }
};

QuantizedForms forms_for(std::initializer_list<const kernels::WeightMatrix*> consumers,
                         kernels::ActivationPolicy policy);

/// Makes those forms of rows [begin, end) from the f32 rows of `x`.
void quantize(const kernels::KernelSet& kernels, QuantizedForms forms, kernels::Activations& x,
              int64_t begin, int64_t end);

/// Runs all products; returns when they are done.
void matmul_group(const kernels::KernelSet& kernels, ThreadPool& threads,
                  std::span<const kernels::MatmulArgs> products);

}  // namespace quire::model
