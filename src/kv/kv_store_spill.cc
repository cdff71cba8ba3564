// How a KvStore lets full pages wait in private files.
#include <algorithm>

#include "base/check.h"
#include "kv/kv_store.h"
#include "kv/spill_plan.h"

namespace quire::kv {

Result<void> KvStore::create_spills(const SpillOptions& options) {
  std::vector<SpillReader::Group> groups;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const LayerGroup& group = geometry_.groups()[g];
    SpillReader::Group& read = groups.emplace_back();
    if (!gains_by_spilling(geometry_, group)) continue;
    const kernels::KvGroupShape shape = group.shape();
    const int64_t page = group.is_lossless() ? shape.page_bytes() : shape.sealed_page_bytes();
    PagePool& pool = pools_[g].full();
    QUIRE_TRY(auto file, options.open_file());
    pool.set_spill(
        std::make_unique<PageSpill>(PageSpill::Shape{.num_layers = group.num_layers(),
                                                     .layer_bytes = page / group.num_layers(),
                                                     .max_pages = pool.max_pages()},
                                    std::move(file)));
    read = {.spill = pool.spill_file(), .form = pools_[g].full_form()};
  }
  auto nothing = ledger_.reserve(0);
  QUIRE_CHECK(nothing.has_value(), "zero bytes are always granted");
  staging_ = std::move(*nothing);
  reader_ = std::make_unique<SpillReader>(geometry_, std::move(groups));
  return {};
}

/// What the reader's buffers may take: a layer's part of all spilled pages of a group.
int64_t KvStore::staging_bytes() const {
  int64_t most = 0;
  for (const GroupPools& pools : pools_) {
    const PageSpill* spill = pools.full().spill_file();
    if (spill == nullptr) continue;
    most = std::max(most, pools.full().num_spilled() * spill->shape().layer_bytes);
  }
  return most * spill_buffers(geometry_);
}

/// Gives back what the buffers held for pages that are no longer spilled.
void KvStore::shrink_staging() {
  if (!reader_) return;
  const int64_t bytes = staging_bytes();
  QUIRE_CHECK(staging_.resize(bytes), "buffers only shrink here");
  reader_->shrink_buffers(bytes / spill_buffers(geometry_));
}

/// Spills the first full page that is still in memory; whether there was one. The last page of a
/// sequence stays, so that its last token can be run again.
Result<bool> KvStore::spill_one() {
  for (auto& [id, sequence] : sequences_) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      PagePool& pool = pools_[g].full();
      if (pool.spill_file() == nullptr) continue;
      PageTable& table = sequence.tables[g];
      const auto entries = table.entries();
      for (size_t i = 0; i + 1 < entries.size(); ++i) {
        const PageTableEntry& entry = entries[i];
        const PageRef& page = entry.form(pools_[g].full_form());
        const bool is_done = entry.end == kPageTokens && entry.end_position() <= sequence.length;
        if (!is_done || !page || page.is_spilled()) continue;
        if (page.is_shared() && is_partial_elsewhere(page.id(), g)) continue;
        QUIRE_TRY_VOID(pool.spill(page.id()));
        forget_spans(page.id(), g);
        QUIRE_CHECK(staging_.resize(staging_bytes()), "a page holds more layers than the buffers");
        return true;
      }
    }
  }
  return false;
}

/// Whether a sequence ends inside this page: it copies the page before it writes behind its end.
bool KvStore::is_partial_elsewhere(PageId page, size_t group) const {
  for (const auto& [id, sequence] : sequences_) {
    const PageTable& table = sequence.tables[group];
    if (table.empty() || table.room() == 0) continue;
    const PageRef& last = table.entries().back().page;
    if (last && last.id() == page) return true;
  }
  return false;
}

/// Tables whose page just left memory build their spans anew.
void KvStore::forget_spans(PageId page, size_t group) {
  for (auto& [id, sequence] : sequences_) {
    for (const PageTableEntry& entry : sequence.tables[group].entries()) {
      const PageRef& ref = entry.form(pools_[group].full_form());
      if (!ref || ref.id() != page) continue;
      sequence.tables[group].forget_spans();
      break;
    }
  }
}

Result<kernels::LayerStream*> KvStore::stream(std::span<const KvSequence* const> sequences) {
  if (staging_bytes() == 0) return static_cast<kernels::LayerStream*>(nullptr);
  std::vector<std::span<const PageTable>> tables;
  for (const KvSequence* seq : sequences) tables.emplace_back(find(*seq).tables);
  QUIRE_TRY_VOID(reader_->start(tables));
  return static_cast<kernels::LayerStream*>(reader_.get());
}

void KvStore::end_stream() {
  if (reader_) reader_->finish();
}

}  // namespace quire::kv
