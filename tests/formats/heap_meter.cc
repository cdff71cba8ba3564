#include "formats/heap_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace quire::formats {
namespace {

std::atomic<int64_t> held_bytes{0};
std::atomic<int64_t> highest_bytes{0};

/// A counted block, or nullptr.
void* allocate_or_null(size_t size) noexcept {
  void* block = std::malloc(size);
  if (block == nullptr) return nullptr;
  const int64_t held = held_bytes.fetch_add(static_cast<int64_t>(::malloc_usable_size(block))) +
                       static_cast<int64_t>(::malloc_usable_size(block));
  int64_t highest = highest_bytes.load();
  while (held > highest && !highest_bytes.compare_exchange_weak(highest, held)) {
  }
  return block;
}

void* allocate(size_t size) {
  void* block = allocate_or_null(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  held_bytes.fetch_sub(static_cast<int64_t>(::malloc_usable_size(block)));
  std::free(block);
}

}  // namespace

HeapMeter::HeapMeter() : start_(held_bytes.load()) {
  highest_bytes.store(start_);
}

int64_t HeapMeter::peak_bytes() const {
  return highest_bytes.load() - start_;
}

}  // namespace quire::formats

void* operator new(size_t size) {
  return quire::formats::allocate(size);
}
void* operator new[](size_t size) {
  return quire::formats::allocate(size);
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return quire::formats::allocate_or_null(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return quire::formats::allocate_or_null(size);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
  quire::formats::release(block);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
  quire::formats::release(block);
}
void operator delete(void* block) noexcept {
  quire::formats::release(block);
}
void operator delete[](void* block) noexcept {
  quire::formats::release(block);
}
void operator delete(void* block, size_t) noexcept {
  quire::formats::release(block);
}
void operator delete[](void* block, size_t) noexcept {
  quire::formats::release(block);
}
