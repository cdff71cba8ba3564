// How a Scheduler reads prompts beside answers: a few layers at a time; see docs/scheduling.md.
#include <algorithm>
#include <cmath>

#include "engine/scheduler.h"
#include "engine/scheduler_entry.h"

namespace quire::engine {
namespace {

// So few rows that their keys and values, read anew for each such pass, cost as much as they do.
constexpr int64_t kFewestRows = 8;

}  // namespace

/// The prompts that are being read, and how far each may go in one pass.
Scheduler::Readers Scheduler::readers() const {
  Readers all;
  for (const auto& entry : running_) {
    if (!entry->is_reading()) continue;
    all.entries.push_back(entry.get());
    all.limits.push_back({entry->request.tenant, entry->tokens_to_next_point()});
  }
  return all;
}

void Scheduler::add_readers(Batch& batch, int64_t tokens) const {
  const Readers all = readers();
  const auto given = divide_tokens(all.limits, tokens);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] > 0) batch.add(*all.entries[i], given[i]);
  }
}

/// Whether answers must not wait for a whole pass over a prompt.
bool Scheduler::reads_beside_answers() const {
  return engine_.can_guess() && std::isfinite(options_.prefill_slowdown);
}

/// Begins a pass over prompts, of as many rows as the last ones advise.
bool Scheduler::begin_reading() {
  Batch batch;
  add_readers(batch, std::min<int64_t>(reading_rows_, engine_.max_step_tokens()));
  std::optional<PartialStep> step;
  const bool began = with_room(batch, [&](const Batch& rest) -> Result<void> {
    QUIRE_TRY(step, engine_.begin_step(rest.items));
    return {};
  });
  if (began) reading_.emplace(Reading{std::move(*step), std::move(batch)});
  return began;
}

/// Runs layers of the prompts' pass for about `budget_ms`, at least one; without a budget, all.
void Scheduler::read_prompts(std::optional<double> budget_ms) {
  if (!reading_ && !begin_reading()) return;
  const double start = options_.now_ms();
  double last = start;
  double longest = 0.0;  // of a layer
  const auto goes_on = [&] {
    const double now = options_.now_ms();
    longest = std::max(longest, now - last);
    last = now;
    return !budget_ms || now + longest <= start + *budget_ms;
  };
  logits_.resize(reading_->batch.items.size() *
                 static_cast<size_t>(engine_.model().config().vocab));
  const bool done = engine_.continue_step(reading_->step, goes_on, logits_);
  if (budget_ms) adapt_reading(longest, *budget_ms);
  if (!done) return;
  const Batch batch = std::move(reading_->batch);
  reading_.reset();
  sample(batch, {});
  publish(batch);
}

/// A layer should take a part of the time there is: a large one, so that keys and values are read
/// for many rows, but not all of it.
void Scheduler::adapt_reading(double layer_ms, double budget_ms) {
  const auto ran = static_cast<int64_t>(reading_->step.num_tokens());
  if (layer_ms > budget_ms / 2) {
    reading_rows_ = std::max(kFewestRows, std::min(reading_rows_, ran) / 2);
  } else if (layer_ms < budget_ms / 6 && ran >= reading_rows_) {
    reading_rows_ = std::min<int64_t>(reading_rows_ * 2, engine_.max_step_tokens());
  }
}

/// Undoes the pass over prompts if `entry` is part of it.
void Scheduler::stop_reading(const Entry& entry) {
  if (reading_ && std::ranges::count(reading_->batch.entries, &entry) != 0) reading_.reset();
}

}  // namespace quire::engine
