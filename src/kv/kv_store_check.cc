// The integrity walk of KvStore: law 3, pages are conserved.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "kv/kv_store.h"

namespace quire::kv {

std::optional<std::string> KvStore::find_fault() const {
  int64_t charged = 0;
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (auto fault = find_pool_fault(g)) return fmt::format("group {}: {}", g, *fault);
    charged += pools_[g]->charged_bytes();
  }
  if (charged != ledger_.used()) {
    return fmt::format("the pools hold {} bytes, the ledger says {}", charged, ledger_.used());
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

/// The pool itself is sound, and each page has as many pins as table entries and tree nodes that
/// point at it.
std::optional<std::string> KvStore::find_pool_fault(size_t group) const {
  const PagePool& pool = *pools_[group];
  if (auto fault = pool.find_fault()) return fault;
  std::vector<int32_t> entries(static_cast<size_t>(pool.num_touched()), 0);
  for (const auto& [id, sequence] : sequences_) {
    for (const PageTableEntry& entry : sequence.tables[group].entries()) {
      ++entries.at(static_cast<size_t>(entry.page.id().value));
    }
  }
  tree_.count_pages(group, entries);
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
  if (table.empty()) {
    if (needed == end) return std::nullopt;
    return fmt::format("empty, but positions [{}, {}) are needed", needed, end);
  }
  if (table.end_position() != end) {
    return fmt::format("ends at position {}, the sequence at {}", table.end_position(), end);
  }
  // After a rollback the one row that is kept beyond need may be gone.
  const int64_t first = table.first_position();
  if (first > needed || first / kPageTokens < group.first_kept(sequence.length) / kPageTokens) {
    return fmt::format("starts at position {}, but {} is the first that is needed", first, needed);
  }
  for (const PageTableEntry& entry : table.entries()) {
    if (entry.logical_base % kPageTokens != 0 || entry.stored_base != entry.logical_base) {
      return fmt::format("the page at position {} is moved or misaligned", entry.logical_base);
    }
    if (entry.end_position() > sequence.length && entry.page.is_shared()) {
      return fmt::format("the page at position {} is writable and shared", entry.logical_base);
    }
  }
  return std::nullopt;
}

}  // namespace quire::kv
