// Steps that run a few layers at a time; see engine.h.
#include "base/check.h"
#include "engine/engine.h"

namespace quire::engine {

Result<PartialStep> Engine::begin_step(std::span<const StepItem> items) {
  QUIRE_CHECK(can_guess(), "layers are run one by one on pages in memory");
  QUIRE_TRY_VOID(check_step(items));
  const std::vector<CachedRun> runs = cached_runs(items);
  QUIRE_TRY_VOID(reserve(runs));
  PartialStep step;
  step.items_.assign(items.begin(), items.end());
  step.batch_ = lay_out(runs);
  return step;
}

bool Engine::continue_step(PartialStep& step, const std::function<bool()>& goes_on,
                           std::span<float> logits) {
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  QUIRE_CHECK_LE(step.batch_.logit_rows.size() * vocab, logits.size());
  // What other sequences did since may have moved pages that these share.
  look_up_pages(step.batch_);
  const model::Batch batch{.tokens = step.batch_.tokens,
                           .sequences = step.batch_.parts,
                           .logit_rows = step.batch_.logit_rows};
  if (!transformer_->forward_some(batch, step.pass_, goes_on, logits)) return false;
  for (const StepItem& item : step.items_) {
    store_->commit(item.sequence->cached_, static_cast<int64_t>(item.tokens.size()));
  }
  take_tokens(step.items_);
  return true;
}

}  // namespace quire::engine
