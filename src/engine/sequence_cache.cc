#include "engine/sequence_cache.h"

#include <algorithm>

namespace quire::engine {
namespace {

/// How many positions of [first, end) lie in [from, until).
int64_t overlap(int64_t first, int64_t end, int64_t from, int64_t until) {
  return std::max<int64_t>(0, std::min(end, until) - std::max(first, from));
}

}  // namespace

CachedGroup count_pages(const kv::LayerGroup& group, const kv::PageTable& table, int64_t tokens) {
  CachedGroup counted;
  const int64_t window_begin = group.first_kept(tokens);
  for (const kv::PageTableEntry& entry : table.entries()) {
    const int64_t first = entry.first_position();
    const int64_t end = std::min(tokens, entry.end_position());
    if (end <= first) continue;  // reserved, not written
    CachedPage page{.first_position = first, .rows = end - first};
    page.is_open = static_cast<bool>(entry.page);
    page.is_sealed = static_cast<bool>(entry.sealed);
    page.is_shared =
        (entry.page && entry.page.is_shared()) || (entry.sealed && entry.sealed.is_shared());
    const int64_t sink_rows =
        overlap(first, end, 0, std::min<int64_t>(group.sink_tokens, window_begin));
    const int64_t rows = overlap(first, end, window_begin, tokens) + sink_rows;
    counted.rows += rows;
    if (page.is_sealed) {
      counted.bytes_used += group.sealed_payload_bytes();
    } else {
      // A page of a lossy codec is counted whole until it is freed, as a sealed one is.
      counted.bytes_used += (group.is_lossless() ? rows : page.rows) * group.row_bytes();
    }
    const auto add = [&](const kv::PageRef& form, int64_t bytes) {
      if (!form) return;
      (form.is_spilled() ? counted.bytes_spilled : counted.bytes_held) += bytes;
      page.is_spilled |= form.is_spilled();
    };
    add(entry.page, group.page_bytes());
    add(entry.sealed, group.sealed_page_bytes());
    counted.pages.push_back(page);
  }
  return counted;
}

}  // namespace quire::engine
