// sequence_cache.h: what the cache holds of one sequence, page by page, as counted in its tables.
//
// For those who look: `quire inspect` draws it and sets the formulas of kv/geometry.h beside it.
// A copy: it stays as it was when the sequence goes on. Plain data.
#pragma once
#include <cstdint>
#include <vector>

#include "kv/geometry.h"
#include "kv/page_table.h"

namespace quire::engine {

struct CachedPage {
  int64_t first_position = 0;
  int64_t rows = 0;         // tokens of the sequence that stand in it
  bool is_open = false;     // it has rows as they were written
  bool is_sealed = false;   // it has codes; both, until the sequence grows past it
  bool is_shared = false;   // another sequence or the prefix tree holds it too
  bool is_spilled = false;  // it waits in a file
};

struct CachedGroup {
  std::vector<CachedPage> pages;  // ascending positions
  int64_t rows = 0;               // those that a window still counts, and sinks
  int64_t bytes_used = 0;         // rows, and whole sealed pages
  int64_t bytes_held = 0;         // whole pages in memory
  int64_t bytes_spilled = 0;      // whole pages in a file
};

struct SequenceCache {
  int64_t tokens = 0;
  int64_t bytes_used = 0;
  int64_t bytes_held = 0;
  int64_t bytes_spilled = 0;
  std::vector<CachedGroup> groups = {};  // as KvGeometry::groups()
};

/// Counts one group's table for a sequence of `tokens`.
CachedGroup count_pages(const kv::LayerGroup& group, const kv::PageTable& table, int64_t tokens);

}  // namespace quire::engine
