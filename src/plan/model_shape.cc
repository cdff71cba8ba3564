#include "plan/model_shape.h"

#include <numeric>

namespace quire::plan {

int64_t ModelShape::parameters() const {
  if (stored && stored->parameters > 0) return stored->parameters;
  return std::accumulate(weights.begin(), weights.end(), int64_t{0},
                         [](int64_t sum, const Weight& w) { return sum + w.elements(); });
}

}  // namespace quire::plan
