// page_table.h: which page holds which positions of one sequence in one layer group.
//
// Entries cover one unbroken run of logical positions; within it every entry but the first starts
// at slot `begin` right where the one before ended:
//
//   positions  64        128       192   200
//              |--page 7--|--page 2--|-9-|          first_position() = 64, end_position() = 200
//
// Keys of an entry were rotated for stored_base + slot and stand at logical_base + slot; only
// entries with both equal are exact. Move-only, since entries pin pages. Thread rule: one engine
// thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/paged_kv_view.h"
#include "kv/page_pool.h"

namespace quire::kv {

struct PageTableEntry {
  PageRef page;
  int32_t stored_base = 0;   // position of slot 0 that the keys were rotated for
  int32_t logical_base = 0;  // position of slot 0 in this sequence
  int16_t begin = 0;         // slots [begin, end) belong to the sequence
  int16_t end = 0;

  [[nodiscard]] int64_t first_position() const { return int64_t{logical_base} + begin; }
  [[nodiscard]] int64_t end_position() const { return int64_t{logical_base} + end; }
};

class PageTable {
 public:
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] int64_t num_pages() const { return static_cast<int64_t>(entries_.size()); }
  [[nodiscard]] std::span<const PageTableEntry> entries() const { return entries_; }
  /// Both 0 for an empty table.
  [[nodiscard]] int64_t first_position() const;
  [[nodiscard]] int64_t end_position() const;
  /// Slots of the last page behind end_position().
  [[nodiscard]] int64_t room() const;
  /// Whether someone else also pins the last page.
  [[nodiscard]] bool last_is_shared() const;

  /// Adds an entry. Requires it to begin at end_position(), unless the table is empty.
  void append(PageTableEntry entry);
  /// Makes the last page's slots up to `position` part of the table. Requires end_position() <=
  /// position <= end_position() + room(), and a last page that is not shared.
  void extend_to(int64_t position);
  /// Swaps the last page for its private copy.
  void replace_last(PageRef copy);
  /// Swaps the page of one entry for another of equal content. Requires an index of entries().
  void replace_page(size_t index, PageRef page);
  /// Forgets positions from `position` on and returns pages that held nothing else.
  void truncate(int64_t position);
  /// Returns pages all of whose positions lie before `position`.
  void drop_before(int64_t position);
  /// The same positions up to `end`, sharing the pages.
  [[nodiscard]] PageTable fork(int64_t end) const;

  /// For kernels; valid until the next non-const call.
  [[nodiscard]] std::span<const kernels::PageSpan> spans() const;

  /// The first broken invariant as a sentence.
  [[nodiscard]] std::optional<std::string> find_fault() const;

 private:
  std::vector<PageTableEntry> entries_;
  mutable std::vector<kernels::PageSpan> spans_;  // rebuilt by spans() when spans_stale_
  mutable bool spans_stale_ = false;
};

}  // namespace quire::kv
