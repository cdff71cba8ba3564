#include "kv/page_spill.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace quire::kv {

PageSpill::PageSpill(const Shape& shape, std::unique_ptr<PrivateFile> file)
    : shape_(shape), file_(std::move(file)) {}

uint64_t PageSpill::offset(int32_t layer, PageId page) const {
  return static_cast<uint64_t>((layer * shape_.max_pages + page.value) * shape_.layer_bytes);
}

size_t PageSpill::checksum_index(PageId page, int32_t layer) const {
  return static_cast<size_t>(page.value) * static_cast<size_t>(shape_.num_layers) +
         static_cast<size_t>(layer);
}

Result<void> PageSpill::write(PageId page, std::span<const std::byte> bytes) {
  const size_t needed = checksum_index(PageId{page.value + 1}, 0);
  if (checksums_.size() < needed) checksums_.resize(needed);
  const auto layer_bytes = static_cast<size_t>(shape_.layer_bytes);
  for (int32_t layer = 0; layer < shape_.num_layers; ++layer) {
    const auto part = bytes.subspan(static_cast<size_t>(layer) * layer_bytes, layer_bytes);
    QUIRE_TRY_VOID(file_->write(offset(layer, page), part));
    checksums_[checksum_index(page, layer)] = hash64(part, static_cast<uint64_t>(page.value));
  }
  return {};
}

Result<void> PageSpill::read_layer(std::span<const PageId> pages, int32_t layer,
                                   std::span<std::byte> out) const {
  const auto layer_bytes = static_cast<size_t>(shape_.layer_bytes);
  QUIRE_CHECK_EQ(out.size(), pages.size() * layer_bytes);
  for (size_t first = 0; first < pages.size();) {
    size_t count = 1;  // neighbours in the file come in one read
    while (first + count < pages.size() &&
           pages[first + count].value == pages[first].value + static_cast<int32_t>(count)) {
      ++count;
    }
    QUIRE_TRY_VOID(file_->read(offset(layer, pages[first]),
                               out.subspan(first * layer_bytes, count * layer_bytes)));
    first += count;
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    const auto part = out.subspan(i * layer_bytes, layer_bytes);
    const uint64_t expected = checksums_[checksum_index(pages[i], layer)];
    if (hash64(part, static_cast<uint64_t>(pages[i].value)) == expected) continue;
    return Error{
        ErrorCode::kIo,
        fmt::format("the spill file returned other bytes than were written for layer {} of "
                    "page {}: check the disk, or raise the memory budget",
                    layer, pages[i].value)};
  }
  return {};
}

void PageSpill::discard(PageId page) {
  for (int32_t layer = 0; layer < shape_.num_layers; ++layer) {
    file_->discard(offset(layer, page), static_cast<uint64_t>(shape_.layer_bytes));
  }
}

}  // namespace quire::kv
