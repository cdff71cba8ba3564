#include "kv/spill_reader.h"

#include <algorithm>

#include "base/check.h"
#include "kv/spill_plan.h"

namespace quire::kv {
namespace {

bool is_spilled(const PageTableEntry& entry, PageForm form) {
  const PageRef& page = entry.form(form);
  return page && page.is_spilled();
}

}  // namespace

SpillReader::SpillReader(const KvGeometry& geometry, std::vector<Group> groups)
    : geometry_(geometry),
      groups_(std::move(groups)),
      buffers_(static_cast<size_t>(spill_buffers(geometry))) {}

SpillReader::~SpillReader() {
  finish();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

SpillReader::Plan SpillReader::plan_group(
    size_t group, std::span<const std::span<const PageTable>> sequences) const {
  Plan plan;
  const PageForm form = groups_[group].form;
  for (const auto& tables : sequences) {
    for (const PageTableEntry& entry : tables[group].entries()) {
      if (is_spilled(entry, form)) plan.pages.push_back(entry.form(form).id());
    }
  }
  const auto by_value = [](PageId a, PageId b) { return a.value < b.value; };
  std::sort(plan.pages.begin(), plan.pages.end(), by_value);
  plan.pages.erase(std::unique(plan.pages.begin(), plan.pages.end()), plan.pages.end());
  for (const auto& tables : sequences) {
    const auto spans = tables[group].spans();
    plan.spans.emplace_back(spans.begin(), spans.end());
    std::vector<int32_t>& slots = plan.slots.emplace_back();
    for (const PageTableEntry& entry : tables[group].entries()) {
      const auto found = is_spilled(entry, form)
                             ? std::lower_bound(plan.pages.begin(), plan.pages.end(),
                                                entry.form(form).id(), by_value)
                             : plan.pages.end();
      slots.push_back(found == plan.pages.end() ? -1
                                                : static_cast<int32_t>(found - plan.pages.begin()));
    }
  }
  return plan;
}

Result<void> SpillReader::start(std::span<const std::span<const PageTable>> sequences) {
  finish();
  plans_.clear();
  int64_t most = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    plans_.push_back(plan_group(g, sequences));
    if (plans_[g].pages.empty()) continue;
    most = std::max(
        most, static_cast<int64_t>(plans_[g].pages.size()) * groups_[g].spill->shape().layer_bytes);
  }
  for (HugeBuffer& buffer : buffers_) {
    if (static_cast<int64_t>(buffer.size()) >= most) continue;
    QUIRE_TRY(buffer, HugeBuffer::allocate(static_cast<size_t>(most)));
  }
  views_.resize(sequences.size());
  current_spans_.resize(sequences.size());
  next_layer_ = 0;
  if (buffers_.size() == 2) request({0, 0});
  return {};
}

void SpillReader::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
  outcome_.reset();
}

void SpillReader::shrink_buffers(int64_t bytes) {
  finish();
  for (HugeBuffer& buffer : buffers_) {
    if (static_cast<int64_t>(buffer.size()) > bytes) buffer = HugeBuffer();
  }
}

Result<void> SpillReader::enter(int32_t layer) {
  QUIRE_CHECK_EQ(layer, next_layer_);
  ++next_layer_;
  const auto buffer = layer % static_cast<int32_t>(buffers_.size());
  if (buffers_.size() == 1) {
    QUIRE_TRY_VOID(read({layer, 0}));
  } else {
    QUIRE_TRY_VOID(wait());
    if (next_layer_ < geometry_.num_layers()) request({next_layer_, 1 - buffer});
  }
  point_views(layer, buffer);
  return {};
}

const kernels::PagedKvView& SpillReader::view(int32_t sequence) const {
  return views_.at(static_cast<size_t>(sequence));
}

/// Fills a buffer with one layer of the spilled pages of its group.
Result<void> SpillReader::read(Job job) {
  const LayerPlace place = geometry_.place(job.layer);
  const Plan& plan = plans_[static_cast<size_t>(place.group)];
  if (plan.pages.empty()) return {};
  const PageSpill& spill = *groups_[static_cast<size_t>(place.group)].spill;
  const auto bytes = plan.pages.size() * static_cast<size_t>(spill.shape().layer_bytes);
  HugeBuffer& buffer = buffers_[static_cast<size_t>(job.buffer)];
  return spill.read_layer(plan.pages, place.index, std::span(buffer.data(), bytes));
}

void SpillReader::request(Job job) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    outcome_.reset();
    job_ = job;
  }
  changed_.notify_all();
}

Result<void> SpillReader::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

void SpillReader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || (job_ && !outcome_); });
    if (stopping_) return;
    const Job job = *job_;
    lock.unlock();
    Result<void> outcome = read(job);
    lock.lock();
    outcome_ = std::move(outcome);
    job_.reset();
    changed_.notify_all();
  }
}

/// Makes the views of layer `layer` point at the staged copies of spilled pages. A span's page is
/// the address that its layer 0 would have, so that the usual offsets lead to the staged layer.
void SpillReader::point_views(int32_t layer, int32_t buffer) {
  const LayerPlace place = geometry_.place(layer);
  const auto g = static_cast<size_t>(place.group);
  const LayerGroup& group = geometry_.groups()[g];
  const Plan& plan = plans_[g];
  const int64_t layer_bytes =
      groups_[g].spill == nullptr ? 0 : groups_[g].spill->shape().layer_bytes;
  const auto staged = reinterpret_cast<uintptr_t>(buffers_[static_cast<size_t>(buffer)].data());
  for (size_t s = 0; s < views_.size(); ++s) {
    std::vector<kernels::PageSpan>& spans = current_spans_[s];
    spans = plan.spans[s];
    for (size_t i = 0; i < spans.size(); ++i) {
      const int64_t slot = plan.slots[s][i];
      if (slot < 0) continue;
      auto* page = reinterpret_cast<std::byte*>(
          staged + static_cast<uintptr_t>((slot - place.index) * layer_bytes));
      (groups_[g].form == PageForm::kOpen ? spans[i].page : spans[i].sealed) = page;
    }
    views_[s] = {.shape = group.shape(),
                 .pages = spans,
                 .window = group.window_tokens,
                 .sinks = group.sink_tokens};
  }
}

}  // namespace quire::kv
