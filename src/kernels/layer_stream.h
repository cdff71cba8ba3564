// layer_stream.h: keys and values that are not all in memory, brought there layer by layer.
//
// Attention over a layer needs that layer's rows only. Whoever keeps the rest elsewhere gives each
// layer's views when its turn comes, and reads the next ones meanwhile. Thread rule: one thread
// calls; the views may be read by many.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "kernels/paged_kv_view.h"

namespace quire::kernels {

class LayerStream {
 public:
  virtual ~LayerStream() = default;

  /// Makes the rows of model layer `layer` readable; layers come in ascending order, each once.
  /// Fails if they cannot be read back.
  virtual Result<void> enter(int32_t layer) = 0;
  /// The view of a sequence of the batch in the layer entered last, valid until the next enter().
  virtual const PagedKvView& view(int32_t sequence) const = 0;
};

}  // namespace quire::kernels
