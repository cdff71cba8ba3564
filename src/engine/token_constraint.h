// token_constraint.h: what an answer may say next: a grammar, a JSON schema, a named tool.
//
// The sampler asks before each token and tells afterwards which one was chosen. An implementation
// depends on the chosen tokens only, never on logits, so a resumed answer is the same as one that
// was never interrupted. Thread rule: one thread at a time.
#pragma once
#include <memory>
#include <span>

#include "base/ids.h"

namespace quire::engine {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Makes every token that may not come next minus infinity. At least one stays: an end of
  /// generation where the answer may end here. // logits: [vocab]
  virtual void mask(std::span<float> logits) = 0;
  /// `token`, which mask() allowed, was chosen.
  virtual void accept(TokenId token) = 0;
  /// The same constraint at the beginning of an answer, for another choice of the same request.
  [[nodiscard]] virtual std::unique_ptr<TokenConstraint> fresh() const = 0;
};

}  // namespace quire::engine
