// page_spill.h: where the pages of one pool wait when memory is short: a private file.
//
// The file is laid out by layer, since layers are read one after another:
//
//   layer 0: page 0, page 1, ... page max - 1 | layer 1: page 0, ...
//
// A checksum of each layer of each page stays in memory, so that a disk that returns other bytes is
// found out. // law 5 does not apply: this is a sequence's own memory, not a tier. Thread rule: one
// thread writes and discards; reads of other pages may run at the same time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/private_file.h"
#include "base/result.h"

namespace quire::kv {

class PageSpill {
 public:
  struct Shape {
    int32_t num_layers = 0;
    int64_t layer_bytes = 0;  // of one page; a page begins with its layers, one after another
    int64_t max_pages = 0;
  };
  PageSpill(const Shape& shape, std::unique_ptr<PrivateFile> file);

  [[nodiscard]] const Shape& shape() const { return shape_; }

  /// Keeps the layers of a page. // page: [num_layers, layer_bytes]
  [[nodiscard]] Result<void> write(PageId page, std::span<const std::byte> bytes);
  /// One layer of several pages, all of them written and ascending. kIo if the file cannot be read
  /// or returned other bytes than were written. // out: [pages.size(), layer_bytes]
  [[nodiscard]] Result<void> read_layer(std::span<const PageId> pages, int32_t layer,
                                        std::span<std::byte> out) const;
  /// The page is not needed any more.
  void discard(PageId page);

 private:
  [[nodiscard]] uint64_t offset(int32_t layer, PageId page) const;
  [[nodiscard]] size_t checksum_index(PageId page, int32_t layer) const;

  const Shape shape_;
  const std::unique_ptr<PrivateFile> file_;
  std::vector<uint64_t> checksums_;  // [pages so far, num_layers]
};

}  // namespace quire::kv
