// The integrity walk of KvStore: law 3, pages are conserved.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "base/integer_math.h"
#include "kv/kv_store.h"

namespace quire::kv {

std::optional<std::string> KvStore::find_fault() const {
  int64_t charged = 0;
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (auto fault = find_pool_fault(g)) return fmt::format("group {}: {}", g, *fault);
    charged += pools_[g].open->charged_bytes();
    if (pools_[g].sealed) charged += pools_[g].sealed->charged_bytes();
  }
  charged += staging_.bytes();
  if (charged != ledger_.used()) {
    return fmt::format("pools and buffers hold {} bytes, the ledger says {}", charged,
                       ledger_.used());
  }
  if (staging_.bytes() < staging_bytes()) {
    return fmt::format("{} bytes of buffers for spilled pages, but {} are needed", staging_.bytes(),
                       staging_bytes());
  }
  if (auto fault = tree_.find_fault()) return "prefix tree: " + *fault;
  int64_t used = 0;
  for (const auto& [id, sequence] : sequences_) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      if (auto fault = find_table_fault(sequence, g)) {
        return fmt::format("sequence {}, group {}: {}", id.value, g, *fault);
      }
    }
    used += sequence.used_bytes;
  }
  if (used != stats().bytes_used) {
    return fmt::format("the sequences use {} bytes, {} are counted", used, stats().bytes_used);
  }
  return std::nullopt;
}

void KvStore::check() const {
  const auto fault = find_fault();
  QUIRE_CHECK(!fault, fault->c_str());
}

/// The pools are sound, and each page has as many pins as table entries and tree nodes that point
/// at it.
std::optional<std::string> KvStore::find_pool_fault(size_t group) const {
  const GroupPools& pools = pools_[group];
  if (auto fault = find_pin_fault(*pools.open, group, PageForm::kOpen)) return fault;
  if (!pools.sealed) return std::nullopt;
  auto fault = find_pin_fault(*pools.sealed, group, PageForm::kSealed);
  return fault ? std::optional("sealed " + *fault) : std::nullopt;
}

std::optional<std::string> KvStore::find_pin_fault(const PagePool& pool, size_t group,
                                                   PageForm form) const {
  if (auto fault = pool.find_fault()) return fault;
  std::vector<int32_t> entries = count_entries(pool, group, form);
  tree_.count_pages(group, form, entries);
  for (int32_t page = 0; page < pool.num_touched(); ++page) {
    const int32_t pins = pool.pin_count({page});
    const int32_t expected = entries[static_cast<size_t>(page)];
    if (pins != expected) {
      return fmt::format("page {} has {} pins, but {} table entries and tree nodes point at it",
                         page, pins, expected);
    }
  }
  return std::nullopt;
}

/// The table covers exactly what its sequence must hold, page-aligned, and what may be written is
/// private.
std::optional<std::string> KvStore::find_table_fault(const Sequence& sequence, size_t g) const {
  const LayerGroup& group = geometry_.groups()[g];
  const PageTable& table = sequence.tables[g];
  if (auto fault = table.find_fault()) return fault;

  const int64_t end = sequence.length + sequence.reserved;
  const int64_t needed = group.first_needed(sequence.length);
  const int64_t sinks = std::min<int64_t>(group.sink_tokens, sequence.length);
  const int64_t sinks_end = round_up(sinks, kPageTokens);
  const bool is_broken = !table.empty() && table.tail_begin() != table.first_position();
  if (sinks > 0 && (table.empty() || table.first_position() != 0 ||
                    (is_broken && table.tail_begin() < sinks_end))) {
    return fmt::format("the {} sinks are not there", sinks);
  }
  if (table.empty() || table.end_position() < sequence.length) {
    if (needed == end) return std::nullopt;
    return fmt::format("positions [{}, {}) are needed, but not there", needed, end);
  }
  if (table.end_position() != end) {
    return fmt::format("ends at position {}, the sequence at {}", table.end_position(), end);
  }
  // After a rollback the one row that is kept beyond need may be gone.
  const int64_t first = table.tail_begin();
  const int64_t kept = group.first_kept(sequence.length) / kPageTokens * kPageTokens;
  if (first > needed || (first < kept && (first > 0 || kept > sinks_end))) {
    return fmt::format("starts at position {}, but {} is the first that is needed", first, needed);
  }
  for (const PageTableEntry& entry : table.entries()) {
    if (entry.logical_base % kPageTokens != 0 || entry.stored_base != entry.logical_base) {
      return fmt::format("the page at position {} is moved or misaligned", entry.logical_base);
    }
    if (auto fault = find_form_fault(sequence, group, entry)) {
      return fmt::format("the page at position {} {}", entry.logical_base, *fault);
    }
  }
  return std::nullopt;
}

/// The page has the forms that its position prescribes, and what may be written is private.
std::optional<std::string> KvStore::find_form_fault(const Sequence& sequence,
                                                    const LayerGroup& group,
                                                    const PageTableEntry& entry) const {
  const bool is_writable = entry.end_position() > sequence.length;
  if (is_writable && (!entry.page || entry.page.is_shared()))
    return "is writable and shared or sealed";
  if (is_writable && entry.sealed && entry.sealed.is_shared()) return "shares a seal to be written";
  const bool wants_sealed = !group.is_lossless() && entry.is_sealable();
  if (static_cast<bool>(entry.sealed) != wants_sealed) {
    return wants_sealed ? "lacks its sealed form" : "has a sealed form that nobody reads";
  }
  const bool wants_open = !wants_sealed || is_writable;
  if (wants_open && !entry.page) return "lacks its open form";
  if (!wants_open && entry.page && entry.end_position() < sequence.length) {
    return "keeps an open form that nobody reads";
  }
  return std::nullopt;
}

}  // namespace quire::kv
