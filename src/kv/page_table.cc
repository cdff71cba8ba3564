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

int64_t PageTable::tail_begin() const {
  for (size_t i = entries_.size(); i-- > 1;) {
    if (entries_[i].first_position() != entries_[i - 1].end_position()) {
      return entries_[i].first_position();
    }
  }
  return first_position();
}

bool PageTable::covers(int64_t first, int64_t end) const {
  for (const PageTableEntry& entry : entries_) {
    if (first >= end || entry.first_position() > first) break;
    first = std::max(first, entry.end_position());
  }
  return first >= end;
}

int64_t PageTable::room() const {
  return entries_.empty() ? 0 : kernels::kPageSlots - int64_t{entries_.back().end};
}

bool PageTable::last_is_shared() const {
  return !entries_.empty() && entries_.back().page && entries_.back().page.is_shared();
}

void PageTable::append(PageTableEntry entry) {
  if (!entries_.empty()) QUIRE_CHECK_EQ(entry.first_position(), end_position());
  append_behind_break(std::move(entry));
}

void PageTable::append_behind_break(PageTableEntry entry) {
  QUIRE_CHECK(entry.page || entry.sealed, "an entry pins a page");
  QUIRE_CHECK_LE(end_position(), entry.first_position());
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
  QUIRE_CHECK(static_cast<bool>(last.page), "only an open page grows");
  last.end = static_cast<int16_t>(last.end + growth);
  spans_stale_ = true;
}

void PageTable::replace_last(PageRef copy) {
  QUIRE_CHECK(!entries_.empty(), "an empty table has no last page");
  entries_.back().page = std::move(copy);
  spans_stale_ = true;
}

void PageTable::replace_page(size_t index, PageForm form, PageRef page) {
  QUIRE_CHECK(static_cast<bool>(page), "an entry pins a page");
  entries_.at(index).form(form) = std::move(page);
  spans_stale_ = true;
}

void PageTable::set_sealed(size_t index, PageRef sealed) {
  entries_.at(index).sealed = std::move(sealed);
  spans_stale_ = true;
}

void PageTable::drop_open(size_t index) {
  QUIRE_CHECK(static_cast<bool>(entries_.at(index).sealed), "a page keeps one of its forms");
  entries_[index].page = {};
  spans_stale_ = true;
}

void PageTable::truncate(int64_t position) {
  if (position >= end_position()) return;
  while (!entries_.empty() && entries_.back().first_position() >= position) entries_.pop_back();
  if (!entries_.empty() && entries_.back().end_position() > position) {
    PageTableEntry& last = entries_.back();
    QUIRE_CHECK(static_cast<bool>(last.page), "only an open page can be cut");
    last.sealed = {};
    last.end = static_cast<int16_t>(position - int64_t{last.logical_base});
  }
  spans_stale_ = true;
}

void PageTable::drop_between(int64_t first, int64_t position) {
  const auto gone = [&](const PageTableEntry& e) {
    return e.first_position() >= first && e.end_position() <= position;
  };
  // Nearly always there is nothing to drop; then the spans stay valid.
  const auto begin = std::find_if(entries_.begin(), entries_.end(), gone);
  if (begin == entries_.end()) return;
  const auto end = std::find_if_not(begin, entries_.end(), gone);
  entries_.erase(begin, end);
  spans_stale_ = true;
}

PageTable PageTable::fork(int64_t end) const {
  PageTable twin;
  for (const PageTableEntry& entry : entries_) {
    if (entry.first_position() >= end) break;
    const int64_t slots = std::min<int64_t>(entry.end, end - int64_t{entry.logical_base});
    PageTableEntry shared{.page = entry.page ? entry.page.share() : PageRef{},
                          .stored_base = entry.stored_base,
                          .logical_base = entry.logical_base,
                          .begin = entry.begin,
                          .end = static_cast<int16_t>(slots)};
    if (entry.sealed && slots == entry.end) shared.sealed = entry.sealed.share();
    twin.entries_.push_back(std::move(shared));
  }
  twin.spans_stale_ = true;
  return twin;
}

std::span<const kernels::PageSpan> PageTable::spans() const {
  if (spans_stale_) {
    spans_.clear();
    for (const PageTableEntry& entry : entries_) {
      spans_.push_back({.page = entry.page ? entry.page.data() : nullptr,
                        .sealed = entry.sealed ? entry.sealed.data() : nullptr,
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
  int breaks = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const PageTableEntry& entry = entries_[i];
    if (!entry.page && !entry.sealed) return fmt::format("entry {} pins no page", i);
    if (entry.begin < 0 || entry.begin >= entry.end || entry.end > kernels::kPageSlots) {
      return fmt::format("entry {} covers slots [{}, {})", i, entry.begin, entry.end);
    }
    const int64_t end_before = i > 0 ? entries_[i - 1].end_position() : entry.first_position();
    if (entry.first_position() == end_before) continue;
    if (entry.first_position() < end_before || ++breaks > 1) {
      return fmt::format("entry {} starts at position {}, the one before ends at {}", i,
                         entry.first_position(), entries_[i - 1].end_position());
    }
  }
  return std::nullopt;
}

}  // namespace quire::kv
