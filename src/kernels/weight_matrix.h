// weight_matrix.h: a weight matrix laid out in panels of 16 rows, in the precision of its file.
//
// One lane of a vector is one output row, so a dot product needs no horizontal sum and has the same
// order, hence the same bits, on every instruction set. Bytes are those of the file, reordered: a
// panel holds 16 rows for all columns, block by block (layouts: kernels/panel_layout.h). Rows are
// padded with zeros to a multiple of 16. Immutable after packing; readable from any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "base/element_type.h"
#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/paged_kv_view.h"

namespace quire::kernels {

inline constexpr int32_t kPanelRows = 16;

class WeightMatrix {
 public:
  WeightMatrix() = default;

  /// Packs `rows` x `cols` numbers stored row by row as in the file. `source_row(r)` names the
  /// file's row that becomes row r (nullptr: the same). Requires `stored` to be exactly that large
  /// and cols a multiple of the type's block. Fails only if memory is refused.
  struct Source {
    ElementType type;
    int64_t rows;
    int64_t cols;
    std::span<const std::byte> stored;  // [stored_rows, cols]
    std::function<int64_t(int64_t)> source_row = nullptr;
    int64_t stored_rows = -1;       // -1: as many as `rows`
    ThreadPool* threads = nullptr;  // who packs it; nullptr: the caller alone
  };
  static Result<WeightMatrix> pack(const Source& source);

  // Never out of line, because per-ISA files call them (simd/README.md).
  QUIRE_ALWAYS_INLINE ElementType type() const { return type_; }
  QUIRE_ALWAYS_INLINE int64_t rows() const { return rows_; }
  QUIRE_ALWAYS_INLINE int64_t cols() const { return cols_; }
  int64_t num_panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  /// Bytes of memory held.
  int64_t bytes() const { return static_cast<int64_t>(panels_.size()); }
  bool empty() const { return rows_ == 0; }

  /// Panel p. // [panel_bytes]
  const std::byte* panel(int64_t p) const;
  QUIRE_ALWAYS_INLINE int64_t panel_bytes() const { return panel_bytes_; }

 private:
  ElementType type_ = ElementType::F32;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t panel_bytes_ = 0;
  HugeBuffer panels_;
};

}  // namespace quire::kernels
