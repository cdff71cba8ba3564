// page_picture.h: a cache as it looks in a terminal: a bar for each layer group, a cell for each
// page.
//
//   global layers 0-29  ████████████████████████  9.02 MiB used of 9.11 MiB held
//        0  Ossso
//
// Pure functions; one cell a page, so that a picture stays readable in a file as well.
#pragma once
#include <string>

#include "engine/sequence_cache.h"
#include "kv/geometry.h"

namespace quire::cli {

/// `cells` cells, of which the first `share` (0 to 1) are full.
std::string bar(double share, int cells);

/// "0-4,6-10".
std::string ranges(const std::vector<int32_t>& ascending);

/// 'o' open, 's' sealed (codes), 'x' spilled to a file; 'O', 'S', 'X' when another sequence shares
/// it. A page freed behind a window is drawn as '.'.
char page_cell(const engine::CachedPage& page);

/// All groups of one sequence. Bars compare with the group that holds most.
std::string page_picture(const kv::KvGeometry& geometry, const engine::SequenceCache& cache);

/// What the cells in `picture` mean.
std::string page_legend(const engine::SequenceCache& cache);

}  // namespace quire::cli
