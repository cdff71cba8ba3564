#include "base/huge_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace quire {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Result<HugeBuffer> HugeBuffer::allocate(size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const bool huge = bytes >= kHugePage;
  const size_t slack = huge ? kHugePage : 0;
  void* mapping = MAP_FAILED;
  if (bytes <= SIZE_MAX - slack) {
    mapping = ::mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (mapping == MAP_FAILED) {
    return Error{ErrorCode::kDoesNotFit, fmt::format("the system refused {} bytes of memory: {}",
                                                     bytes, std::strerror(errno))};
  }
  auto address = reinterpret_cast<uintptr_t>(mapping);
  if (huge) address = (address + kHugePage - 1) & ~(kHugePage - 1);
  buffer.mapping_ = mapping;
  buffer.mapped_bytes_ = bytes + slack;
  buffer.data_ = reinterpret_cast<std::byte*>(address);
  buffer.size_ = bytes;
  if (huge) ::madvise(buffer.data_, bytes, MADV_HUGEPAGE);
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

}  // namespace quire
