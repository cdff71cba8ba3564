// machine_limits.h: what this machine could do at best, measured now: the rate at which threads
// read memory and at which they multiply small integers.
//
// Decoding a token reads all weights and the sequence's keys and values once; prefill multiplies
// every weight with every token. So the first bounds decode, the second prefill, and `bench` says
// how near it came. On a shared machine both change from minute to minute: measure beside each
// figure. Functions without state; they use all threads of the pool for some tens of milliseconds.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "model/config.h"

namespace quire::engine {

/// Reads a buffer over and over.
class ReadProbe {
 public:
  /// kDoesNotFit if the system refuses the memory.
  static Result<ReadProbe> create();
  /// Bytes a second for a working set of `bytes` (of which at most 256 MiB are tried: the
  /// last-level cache may hold a part of a small one), the best of three passes after one to warm
  /// up. Four far-apart streams a thread, as matrix-vector products read.
  double rate(ThreadPool& pool, int64_t bytes);

 private:
  explicit ReadProbe(HugeBuffer buffer) : buffer_(std::move(buffer)) {}
  HugeBuffer buffer_;
};

/// Operations a second (a product and a sum are two); nothing where the instruction set has no
/// integer products.
double int8_peak(ThreadPool& pool, std::string_view isa);

/// Integer operations of one token of prefill: all matrices but the head and what follows keys and
/// values in the last layer, which only the last token needs where no page is offloaded. Attention
/// is not in it.
double prefill_operations(const model::ModelConfig& config);

}  // namespace quire::engine
