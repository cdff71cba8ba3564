// Who holds the pages of a KvStore.
#include <algorithm>
#include <vector>

#include "kv/kv_store.h"

namespace quire::kv {

PageCounts KvStore::count_pages() const {
  PageCounts counts;
  for (size_t g = 0; g < pools_.size(); ++g) {
    count_pages(g, PageForm::kOpen, counts);
    if (pools_[g].sealed) count_pages(g, PageForm::kSealed, counts);
  }
  return counts;
}

void KvStore::count_pages(size_t group, PageForm form, PageCounts& counts) const {
  const GroupPools& pools = pools_[group];
  const PagePool& pool = form == PageForm::kOpen ? *pools.open : *pools.sealed;
  const std::vector<int32_t> entries = count_entries(pool, group, form);
  std::vector<int32_t> nodes(entries.size(), 0);
  tree_.count_pages(group, form, nodes);
  for (size_t page = 0; page < entries.size(); ++page) {
    const bool in_sequence = entries[page] > 0;
    const bool in_tree = nodes[page] > 0;
    if (!in_sequence && !in_tree) continue;
    const bool is_spilled = pool.is_spilled({static_cast<int32_t>(page)});
    const int64_t bytes = is_spilled ? 0 : pool.page_bytes();
    counts.spilled += is_spilled ? 1 : 0;
    counts.held_by_sequences += in_sequence ? 1 : 0;
    counts.sequence_bytes += in_sequence ? bytes : 0;
    counts.held_by_tree += in_tree ? 1 : 0;
    counts.tree_bytes += in_tree ? bytes : 0;
    counts.pinned += in_sequence && in_tree ? 1 : 0;
    counts.pinned_bytes += in_sequence && in_tree ? bytes : 0;
  }
  // Growing pools share one budget: what one of them took, the others lack.
  const bool is_set_aside = pool.price(1) == 0;
  const int64_t available = pool.num_available();
  counts.free = is_set_aside ? counts.free + available : std::max(counts.free, available);
}

/// How many table entries point at each page. // [num_touched]
std::vector<int32_t> KvStore::count_entries(const PagePool& pool, size_t group,
                                            PageForm form) const {
  std::vector<int32_t> entries(static_cast<size_t>(pool.num_touched()), 0);
  for (const auto& [id, sequence] : sequences_) {
    for (const PageTableEntry& entry : sequence.tables[group].entries()) {
      const PageRef& page = entry.form(form);
      if (page) ++entries.at(static_cast<size_t>(page.id().value));
    }
  }
  return entries;
}

}  // namespace quire::kv
