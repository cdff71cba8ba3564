#include "kv/page_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire::kv {

int64_t PageTable::first_position() const {
  return entries_.empty() ? 0 : entries_.front().first_position();
}

int64_t PageTable::end_position() const {
  return entries_.empty() ? 0 : entries_.back().end_position();
}

int64_t PageTable::room() const {
  return entries_.empty() ? 0 : kernels::kPageSlots - int64_t{entries_.back().end};
}

bool PageTable::last_is_shared() const {
  return !entries_.empty() && entries_.back().page.is_shared();
}

void PageTable::append(PageTableEntry entry) {
  QUIRE_CHECK(static_cast<bool>(entry.page), "an entry pins a page");
  if (!entries_.empty()) QUIRE_CHECK_EQ(entry.first_position(), end_position());
  entries_.push_back(std::move(entry));
  spans_stale_ = true;
}

void PageTable::extend_to(int64_t position) {
  const int64_t growth = position - end_position();
  if (growth == 0) return;
  QUIRE_CHECK_LE(0, growth);
  QUIRE_CHECK_LE(growth, room());
  QUIRE_CHECK(!last_is_shared(), "a shared page is copied before it is written");
  PageTableEntry& last = entries_.back();
  last.end = static_cast<int16_t>(last.end + growth);
  spans_stale_ = true;
}

void PageTable::replace_last(PageRef copy) {
  QUIRE_CHECK(!entries_.empty(), "an empty table has no last page");
  entries_.back().page = std::move(copy);
  spans_stale_ = true;
}

void PageTable::replace_page(size_t index, PageRef page) {
  QUIRE_CHECK(static_cast<bool>(page), "an entry pins a page");
  entries_.at(index).page = std::move(page);
  spans_stale_ = true;
}

void PageTable::truncate(int64_t position) {
  if (position >= end_position()) return;
  while (!entries_.empty() && entries_.back().first_position() >= position) entries_.pop_back();
  if (!entries_.empty()) {
    PageTableEntry& last = entries_.back();
    last.end =
        static_cast<int16_t>(std::min<int64_t>(last.end, position - int64_t{last.logical_base}));
  }
  spans_stale_ = true;
}

void PageTable::drop_before(int64_t position) {
  const auto kept = std::find_if(entries_.begin(), entries_.end(), [&](const PageTableEntry& e) {
    return e.end_position() > position;
  });
  if (kept == entries_.begin()) return;
  entries_.erase(entries_.begin(), kept);
  spans_stale_ = true;
}

PageTable PageTable::fork(int64_t end) const {
  PageTable twin;
  for (const PageTableEntry& entry : entries_) {
    if (entry.first_position() >= end) break;
    const int64_t slots = std::min<int64_t>(entry.end, end - int64_t{entry.logical_base});
    twin.append({.page = entry.page.share(),
                 .stored_base = entry.stored_base,
                 .logical_base = entry.logical_base,
                 .begin = entry.begin,
                 .end = static_cast<int16_t>(slots)});
  }
  return twin;
}

std::span<const kernels::PageSpan> PageTable::spans() const {
  if (spans_stale_) {
    spans_.clear();
    for (const PageTableEntry& entry : entries_) {
      spans_.push_back({.page = entry.page.data(),
                        .stored_base = entry.stored_base,
                        .logical_base = entry.logical_base,
                        .begin = entry.begin,
                        .end = entry.end});
    }
    spans_stale_ = false;
  }
  return spans_;
}

std::optional<std::string> PageTable::find_fault() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const PageTableEntry& entry = entries_[i];
    if (!entry.page) return fmt::format("entry {} pins no page", i);
    if (entry.begin < 0 || entry.begin >= entry.end || entry.end > kernels::kPageSlots) {
      return fmt::format("entry {} covers slots [{}, {})", i, entry.begin, entry.end);
    }
    if (i > 0 && entry.first_position() != entries_[i - 1].end_position()) {
      return fmt::format("entry {} starts at position {}, the one before ends at {}", i,
                         entry.first_position(), entries_[i - 1].end_position());
    }
  }
  return std::nullopt;
}

}  // namespace quire::kv
