// page_pool.h: fixed-size KV pages handed out from one slab.
//
// Owns all page memory of one layer group. A page is free, or held by one or more PageRefs; the
// last PageRef returns it. Pages never move, and a page is all zero when acquired (a masked slot
// must be finite). Addresses for max_pages are set aside at creation, memory is committed on first
// touch. Held pages are on the ledger; free ones are not, and all but a few are given back to the
// system. Thread rule: one engine thread; num_held() and num_cached() may be called from any.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/huge_buffer.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/memory_ledger.h"
#include "kv/page_spill.h"

namespace quire::kv {

class PagePool;

/// A pin on one page. Move-only; its destructor releases the pin. An empty one pins nothing.
class PageRef {
 public:
  PageRef() = default;
  PageRef(PageRef&& other) noexcept;
  PageRef& operator=(PageRef&& other) noexcept;
  ~PageRef() { reset(); }

  /// One more pin on the same page. Requires a page, as all below.
  [[nodiscard]] PageRef share() const;
  [[nodiscard]] PageId id() const { return id_; }
  /// page_bytes() bytes, 4 KiB aligned, valid while any pin lives and the page is not spilled; null
  /// if it is.
  [[nodiscard]] std::byte* data() const;
  [[nodiscard]] bool is_spilled() const { return data() == nullptr; }
  /// Whether another pin exists: then nobody may write.
  [[nodiscard]] bool is_shared() const;

  void reset();
  explicit operator bool() const { return pool_ != nullptr; }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, PageId id) : pool_(pool), id_(id) {}

  PagePool* pool_ = nullptr;
  PageId id_;
};

struct PagePoolOptions {
  int64_t page_bytes = 0;          // a multiple of kPageAlignment
  int64_t max_pages = 0;           // at most INT32_MAX
  int64_t preallocated_pages = 0;  // charged and committed at creation, never given back (static)
  int64_t cached_pages = 4;        // free pages whose memory is kept for the next acquire
};

class PagePool {
 public:
  /// kDoesNotFit if the system refuses the addresses or the ledger the preallocated pages. The
  /// ledger must outlive the pool.
  [[nodiscard]] static Result<std::unique_ptr<PagePool>> create(const PagePoolOptions& options,
                                                                MemoryLedger& ledger);
  /// From now on pages may be spilled. Requires one place a page: shape().max_pages == max_pages().
  void set_spill(std::unique_ptr<PageSpill> spill);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  /// Aborts if a page is still pinned.
  ~PagePool();

  /// A zeroed page with one pin, or nothing when max_pages are held or the ledger is full: the
  /// caller frees something or refuses.
  [[nodiscard]] std::optional<PageRef> acquire();
  /// The same with the bytes of `source`, a page of this pool: copy-on-write.
  [[nodiscard]] std::optional<PageRef> acquire_copy(const PageRef& source);

  /// Moves a held page to the spill file and gives its memory back; its pins stay. Requires a spill
  /// and a resident page. If the file refuses, the page stays where it was.
  [[nodiscard]] Result<void> spill(PageId page);
  /// Null without one.
  [[nodiscard]] const PageSpill* spill_file() const { return spill_.get(); }
  [[nodiscard]] bool is_spilled(PageId page) const;
  [[nodiscard]] int64_t num_spilled() const { return num_spilled_.load(std::memory_order_relaxed); }

  [[nodiscard]] int64_t page_bytes() const { return options_.page_bytes; }
  [[nodiscard]] int64_t max_pages() const { return options_.max_pages; }
  [[nodiscard]] int64_t num_held() const { return num_held_.load(std::memory_order_relaxed); }
  /// Free pages that still have their memory; not on the ledger.
  [[nodiscard]] int64_t num_cached() const { return num_cached_.load(std::memory_order_relaxed); }
  /// Bytes that this pool has on the ledger.
  [[nodiscard]] int64_t charged_bytes() const { return charged_.bytes(); }
  /// Pages that acquire() could hand out now, one after another, if nobody else took from the
  /// ledger.
  [[nodiscard]] int64_t num_available() const;
  /// Ledger bytes that so many more pages would cost: none for preallocated ones. Nothing if the
  /// slab has no room for them.
  [[nodiscard]] std::optional<int64_t> price(int64_t pages) const;
  /// Pages handed out at least once, or preallocated; their ids are [0, num_touched()).
  [[nodiscard]] int32_t num_touched() const { return static_cast<int32_t>(pins_.size()); }
  [[nodiscard]] int32_t pin_count(PageId page) const;

  /// The first broken invariant as a sentence: free + held == total, each free page listed once,
  /// the ledger charged for exactly the resident (or preallocated) pages.
  [[nodiscard]] std::optional<std::string> find_fault() const;
  /// Aborts with that sentence.
  void check() const;

 private:
  friend class PageRef;

  PagePool(const PagePoolOptions& options, HugeBuffer slab, MemoryLedger& ledger);
  [[nodiscard]] std::byte* address(PageId page);
  [[nodiscard]] std::optional<PageId> take_free_page();
  [[nodiscard]] Result<void> preallocate();
  [[nodiscard]] int64_t num_resident() const { return num_held() - num_spilled(); }
  [[nodiscard]] int64_t charge_for(int64_t resident) const;
  void pin(PageId page);
  void unpin(PageId page);
  void give_back(PageId page);

  const PagePoolOptions options_;
  MemoryLedger& ledger_;
  HugeBuffer slab_;  // [max_pages, page_bytes]
  Reservation charged_;
  std::vector<int32_t> pins_;  // [num_touched_] pins of each page handed out so far
  std::vector<PageId> clean_;  // free, all zero
  std::vector<PageId> dirty_;  // free, memory kept, old bytes
  std::unique_ptr<PageSpill> spill_;
  std::vector<bool> spilled_;  // [num_touched_], or shorter: the rest are resident
  std::atomic<int64_t> num_spilled_{0};
  std::atomic<int64_t> num_held_{0};
  std::atomic<int64_t> num_cached_{0};
};

}  // namespace quire::kv
