#include "kv/page_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "kv/geometry.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_KV_POISON
#endif
#endif
#if defined(QUIRE_KV_POISON) || defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace quire::kv {
namespace {

size_t index(PageId page) {
  return static_cast<size_t>(page.value);
}

}  // namespace

PageRef::PageRef(PageRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, PageId{})) {}

PageRef& PageRef::operator=(PageRef&& other) noexcept {
  PageRef taken(std::move(other));
  std::swap(pool_, taken.pool_);
  std::swap(id_, taken.id_);
  return *this;
}

PageRef PageRef::share() const {
  QUIRE_CHECK(pool_ != nullptr, "an empty PageRef pins nothing");
  pool_->pin(id_);
  return PageRef(pool_, id_);
}

std::byte* PageRef::data() const {
  QUIRE_CHECK(pool_ != nullptr, "an empty PageRef pins nothing");
  return pool_->is_spilled(id_) ? nullptr : pool_->address(id_);
}

bool PageRef::is_shared() const {
  QUIRE_CHECK(pool_ != nullptr, "an empty PageRef pins nothing");
  return pool_->pin_count(id_) > 1;
}

void PageRef::reset() {
  if (pool_ == nullptr) return;
  std::exchange(pool_, nullptr)->unpin(std::exchange(id_, PageId{}));
}

Result<std::unique_ptr<PagePool>> PagePool::create(const PagePoolOptions& options,
                                                   MemoryLedger& ledger) {
  QUIRE_CHECK_LT(0, options.page_bytes);
  QUIRE_CHECK_EQ(options.page_bytes % kPageAlignment, 0);
  QUIRE_CHECK_LE(0, options.max_pages);
  QUIRE_CHECK_LE(options.max_pages, INT32_MAX);
  QUIRE_CHECK_LE(options.preallocated_pages, options.max_pages);

  const auto bytes = checked_mul<int64_t>(options.max_pages, options.page_bytes);
  auto slab = bytes ? HugeBuffer::allocate(static_cast<size_t>(*bytes))
                    : Result<HugeBuffer>(Error{ErrorCode::kDoesNotFit, "more than 2^63 bytes"});
  if (!slab.ok()) {
    return Error{
        ErrorCode::kDoesNotFit,
        fmt::format("cannot set aside {} KV pages of {} bytes ({}): lower the memory budget",
                    options.max_pages, options.page_bytes, slab.error().message)};
  }
  // make_unique cannot reach the private constructor.
  std::unique_ptr<PagePool> pool(new PagePool(options, std::move(*slab), ledger));
  QUIRE_TRY_VOID(pool->preallocate());
  return pool;
}

PagePool::PagePool(const PagePoolOptions& options, HugeBuffer slab, MemoryLedger& ledger)
    : options_(options), ledger_(ledger), slab_(std::move(slab)) {
  auto empty = ledger.reserve(0);
  QUIRE_CHECK(empty.has_value(), "zero bytes are always granted");
  charged_ = std::move(*empty);
}

PagePool::~PagePool() {
  QUIRE_CHECK_EQ(num_held(), 0);
  ASAN_UNPOISON_MEMORY_REGION(slab_.data(), slab_.size());
}

Result<void> PagePool::preallocate() {
  const int64_t pages = options_.preallocated_pages;
  if (pages == 0) return {};
  const int64_t bytes = pages * options_.page_bytes;
  if (!charged_.resize(bytes)) {
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("{} KV pages need {} bytes, but only {} of {} are free: lower the "
                             "context or the number of sequences, or raise the memory budget",
                             pages, bytes, ledger_.available(), ledger_.ceiling())};
  }
  // Touch every page now: what the system cannot give must not surface in the middle of an answer.
  std::memset(slab_.data(), 0, static_cast<size_t>(bytes));
  pins_.resize(static_cast<size_t>(pages), 0);
  for (int64_t i = pages - 1; i >= 0; --i) dirty_.push_back({static_cast<int32_t>(i)});
  num_cached_.store(pages, std::memory_order_relaxed);
  ASAN_POISON_MEMORY_REGION(slab_.data(), static_cast<size_t>(bytes));
  return {};
}

std::optional<PageRef> PagePool::acquire() {
  const bool reuses_memory = !dirty_.empty();
  const auto page = take_free_page();
  if (!page) return std::nullopt;
  // Pages from the system are zero already; touching them here would commit them early.
  if (reuses_memory) std::memset(address(*page), 0, static_cast<size_t>(options_.page_bytes));
  return PageRef(this, *page);
}

std::optional<PageRef> PagePool::acquire_copy(const PageRef& source) {
  QUIRE_CHECK(source.pool_ == this, "a page is copied within its pool");
  QUIRE_CHECK(!source.is_spilled(), "only full pages are spilled, and full pages are not written");
  const auto page = take_free_page();
  if (!page) return std::nullopt;
  std::memcpy(address(*page), source.data(), static_cast<size_t>(options_.page_bytes));
  return PageRef(this, *page);
}

void PagePool::set_spill(std::unique_ptr<PageSpill> spill) {
  QUIRE_CHECK_EQ(spill->shape().max_pages, options_.max_pages);
  QUIRE_CHECK_EQ(options_.preallocated_pages, 0);
  spill_ = std::move(spill);
}

bool PagePool::is_spilled(PageId page) const {
  return index(page) < spilled_.size() && spilled_[index(page)];
}

Result<void> PagePool::spill(PageId page) {
  QUIRE_CHECK(spill_ != nullptr, "a pool without a spill file");
  QUIRE_CHECK_LT(0, pin_count(page));
  QUIRE_CHECK(!is_spilled(page), "the page is spilled already");
  QUIRE_TRY_VOID(spill_->write(page, {address(page), static_cast<size_t>(options_.page_bytes)}));
  spilled_.resize(pins_.size());
  spilled_[index(page)] = true;
  num_spilled_.fetch_add(1, std::memory_order_relaxed);
  QUIRE_CHECK(charged_.resize(charge_for(num_resident())), "shrinking a reservation always works");
  // A later tenant of the slot expects zeros.
  const auto page_bytes = static_cast<size_t>(options_.page_bytes);
  if (::madvise(address(page), page_bytes, MADV_DONTNEED) != 0) {
    std::memset(address(page), 0, page_bytes);
  }
  ASAN_POISON_MEMORY_REGION(address(page), page_bytes);
  return {};
}

int64_t PagePool::num_available() const {
  const int64_t prepaid = std::max<int64_t>(0, options_.preallocated_pages - num_held());
  return std::min(options_.max_pages - num_held(),
                  prepaid + ledger_.available() / options_.page_bytes);
}

std::optional<int64_t> PagePool::price(int64_t pages) const {
  if (pages > options_.max_pages - num_held()) return std::nullopt;
  return charge_for(num_resident() + pages) - charge_for(num_resident());
}

int32_t PagePool::pin_count(PageId page) const {
  QUIRE_CHECK_LE(0, page.value);
  QUIRE_CHECK_LT(index(page), pins_.size());
  return pins_[index(page)];
}

std::byte* PagePool::address(PageId page) {
  return slab_.data() + int64_t{page.value} * options_.page_bytes;
}

int64_t PagePool::charge_for(int64_t resident) const {
  return std::max(resident, options_.preallocated_pages) * options_.page_bytes;
}

/// Pinned once and charged; its bytes are old if it came from dirty_, else zero.
std::optional<PageId> PagePool::take_free_page() {
  if (num_held() == options_.max_pages) return std::nullopt;
  if (!charged_.resize(charge_for(num_resident() + 1))) return std::nullopt;

  PageId page;
  if (!dirty_.empty()) {
    page = dirty_.back();
    dirty_.pop_back();
    num_cached_.fetch_sub(1, std::memory_order_relaxed);
  } else if (!clean_.empty()) {
    page = clean_.back();
    clean_.pop_back();
  } else {
    page = PageId{static_cast<int32_t>(pins_.size())};
    pins_.push_back(0);
  }
  pins_[index(page)] = 1;
  num_held_.fetch_add(1, std::memory_order_relaxed);
  ASAN_UNPOISON_MEMORY_REGION(address(page), static_cast<size_t>(options_.page_bytes));
  return page;
}

void PagePool::pin(PageId page) {
  QUIRE_CHECK_LT(0, pin_count(page));
  ++pins_[index(page)];
}

void PagePool::unpin(PageId page) {
  QUIRE_CHECK_LT(0, pin_count(page));
  if (--pins_[index(page)] == 0) give_back(page);
}

void PagePool::give_back(PageId page) {
  const int64_t held = num_held_.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (is_spilled(page)) {
    spill_->discard(page);
    spilled_[index(page)] = false;
    num_spilled_.fetch_sub(1, std::memory_order_relaxed);
    clean_.push_back(page);
    return;
  }
  QUIRE_CHECK(charged_.resize(charge_for(num_resident())), "shrinking a reservation always works");
  ASAN_POISON_MEMORY_REGION(address(page), static_cast<size_t>(options_.page_bytes));

  const int64_t keep = std::max(options_.cached_pages, options_.preallocated_pages - held);
  const auto page_bytes = static_cast<size_t>(options_.page_bytes);
  // After DONTNEED the page reads as zero; memory that is locked refuses it and stays as it is.
  if (num_cached() >= keep && ::madvise(address(page), page_bytes, MADV_DONTNEED) == 0) {
    clean_.push_back(page);
    return;
  }
  dirty_.push_back(page);
  num_cached_.fetch_add(1, std::memory_order_relaxed);
}

std::optional<std::string> PagePool::find_fault() const {
  const auto touched = static_cast<int64_t>(pins_.size());
  const auto held = touched - std::count(pins_.begin(), pins_.end(), 0);
  if (held != num_held()) {
    return fmt::format("{} pages are pinned, but {} counted as held", held, num_held());
  }
  std::vector<bool> listed(pins_.size(), false);
  for (const auto* list : {&clean_, &dirty_}) {
    for (const PageId page : *list) {
      if (pin_count(page) != 0) return fmt::format("page {} is free and pinned", page.value);
      if (listed[index(page)]) return fmt::format("page {} is free twice", page.value);
      listed[index(page)] = true;
    }
  }
  const auto free = static_cast<int64_t>(clean_.size() + dirty_.size());
  if (free + held != touched) {
    return fmt::format("{} free and {} held pages are not the {} handed out", free, held, touched);
  }
  if (num_cached() != static_cast<int64_t>(dirty_.size())) {
    return fmt::format("{} pages keep their memory, but {} are counted", dirty_.size(),
                       num_cached());
  }
  if (touched > options_.max_pages) {
    return fmt::format("{} pages in a slab for {}", touched, options_.max_pages);
  }
  const auto spilled = std::count(spilled_.begin(), spilled_.end(), true);
  if (spilled != num_spilled()) {
    return fmt::format("{} pages are spilled, but {} are counted", spilled, num_spilled());
  }
  if (charged_.bytes() != charge_for(held - spilled)) {
    return fmt::format("the ledger is charged {} bytes for {} pages of {}", charged_.bytes(),
                       held - spilled, options_.page_bytes);
  }
  return std::nullopt;
}

void PagePool::check() const {
  const auto fault = find_fault();
  QUIRE_CHECK(!fault, fault->c_str());
}

}  // namespace quire::kv
