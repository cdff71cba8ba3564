// page_table.h: which page holds which positions of one sequence in one layer group.
//
// Entries cover a run of logical positions, broken at most once, between sinks and window; within a
// run every entry but the first starts at slot `begin` right where the one before ended:
//
//   positions  0       64      512       576       640   650
//              |--page 3--|....|--page 7--|--page 2--|-9-|
//                              tail_begin() = 512         end_position() = 650
//
// A page has an open form, a sealed one, or both (geometry.h).
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

enum class PageForm : uint8_t { kOpen, kSealed };

struct PageTableEntry {
  PageRef page;              // open; empty once only the sealed form is left
  PageRef sealed = {};       // of the pool of sealed pages; empty while the page is open only
  int32_t stored_base = 0;   // position of slot 0 that the keys were rotated for
  int32_t logical_base = 0;  // position of slot 0 in this sequence
  int16_t begin = 0;         // slots [begin, end) belong to the sequence
  int16_t end = 0;

  [[nodiscard]] PageRef& form(PageForm form) { return form == PageForm::kOpen ? page : sealed; }
  [[nodiscard]] const PageRef& form(PageForm form) const {
    return form == PageForm::kOpen ? page : sealed;
  }
  /// With a lossy codec such a page has a sealed form: full, and not at position 0.
  [[nodiscard]] bool is_sealable() const { return logical_base > 0 && end == kernels::kPageSlots; }
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
  /// First position of the last unbroken run.
  [[nodiscard]] int64_t tail_begin() const;
  /// Whether every position of [first, end) is in the table.
  [[nodiscard]] bool covers(int64_t first, int64_t end) const;
  /// Slots of the last page behind end_position().
  [[nodiscard]] int64_t room() const;
  /// Whether someone else also pins the last page's open form.
  [[nodiscard]] bool last_is_shared() const;

  /// Adds an entry. Requires it to begin at end_position(), unless the table is empty.
  void append(PageTableEntry entry);
  /// The same at any position behind end_position(): the break between sinks and window.
  void append_behind_break(PageTableEntry entry);
  /// Makes the last page's slots up to `position` part of the table. Requires end_position() <=
  /// position <= end_position() + room(), and a last page that is not shared.
  void extend_to(int64_t position);
  /// Swaps the last page for its private copy.
  void replace_last(PageRef copy);
  /// Swaps one form of an entry's page for another page of equal content. Requires an index of
  /// entries().
  void replace_page(size_t index, PageForm form, PageRef page);
  /// Gives entry `index` its sealed form.
  void set_sealed(size_t index, PageRef sealed);
  /// Returns the open form of entry `index`. Requires a sealed one.
  void drop_open(size_t index);
  /// Forgets positions from `position` on and returns pages that held nothing else; a page that is
  /// cut loses its sealed form. Requires an open form of such a page.
  void truncate(int64_t position);
  /// Returns pages all of whose positions lie in [first, position).
  void drop_between(int64_t first, int64_t position);
  /// The same positions up to `end`, sharing the pages.
  [[nodiscard]] PageTable fork(int64_t end) const;

  /// To be called when a page's address has changed.
  void forget_spans() { spans_stale_ = true; }
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
