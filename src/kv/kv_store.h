// kv_store.h: the keys and values of all sequences: what the engine reserves, writes, commits,
// forks.
//
// One pool of open pages per layer group, and with a lossy codec one of sealed pages, under one
// ledger of bytes. A call either does all it says or changes nothing. A sequence is `length`
// committed tokens followed by reserved slots that may be written:
//
//   |-- committed: visible, shared after a fork --|-- reserved: private, writable --|
//   0                                        length                       length + reserved
//
// With a lossy codec reserve() adds a sealed form to every page that the reserved slots fill;
// whoever writes the last of them encodes it before commit(). The open form stays until the
// sequence grows past the page, so that its last token can be run again.
//
// Thread rule: one engine thread for everything but stats(), which may be called from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/paged_kv_view.h"
#include "kv/geometry.h"
#include "kv/memory_ledger.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_tree.h"
#include "kv/spill_reader.h"

namespace quire::kv {

class KvStore;

/// A sequence of a store. Move-only; its destructor returns all its pages. An empty one owns
/// nothing.
class KvSequence {
 public:
  KvSequence() = default;
  KvSequence(KvSequence&& other) noexcept;
  KvSequence& operator=(KvSequence&& other) noexcept;
  ~KvSequence() { reset(); }

  [[nodiscard]] SeqId id() const { return id_; }
  explicit operator bool() const { return store_ != nullptr; }
  void reset();

 private:
  friend class KvStore;
  KvSequence(KvStore* store, SeqId id) : store_(store), id_(id) {}

  KvStore* store_ = nullptr;
  SeqId id_;
};

/// Reserve everything at creation: `sequences` that each grow to `tokens`, at most `chunk_tokens`
/// at once. What does not fit is refused then, not later.
struct StaticReservation {
  int64_t tokens = 0;
  int64_t sequences = 1;
  int64_t chunk_tokens = 0;
};

/// Let full pages wait in private files when memory is short, one file a layer group.
struct SpillOptions {
  std::function<Result<std::unique_ptr<PrivateFile>>()> open_file;
  int64_t max_bytes = 0;  // of pages, beyond the budget of memory
};

struct KvStoreOptions {
  int64_t budget_bytes = 0;  // ceiling for the held pages of all groups together
  std::optional<StaticReservation> static_reservation = std::nullopt;  // absent: a growing pool
  PrefixTreeOptions prefix = {};                     // its pages count among those of budget_bytes
  std::optional<SpillOptions> spill = std::nullopt;  // absent: all pages stay in memory
};

/// What reserve() would do before the prefix tree makes room: pure arithmetic over page tables.
struct ReservePlan {
  int64_t tokens = 0;
  int64_t new_pages = 0;     // in all groups, open and sealed
  int64_t copied_pages = 0;  // of them, private copies of a shared last page
  int64_t needed_bytes = 0;
  int64_t available_bytes = 0;
  bool fits = false;
};

struct KvGroupStats {
  int64_t page_bytes = 0;
  int64_t pages_held = 0;
  int64_t pages_free = 0;         // that the budget could still provide to this group alone
  int64_t pages_cached = 0;       // free ones whose memory is kept: resident; held only when static
  int64_t sealed_page_bytes = 0;  // 0 with a lossless codec
  int64_t sealed_pages_held = 0;
  int64_t sealed_pages_free = 0;
  int64_t sealed_pages_cached = 0;
  int64_t pages_spilled = 0;  // of those held, in either form
};

struct KvStats {
  int64_t bytes_used = 0;     // of all sequences; what two of them share counts twice
  int64_t bytes_held = 0;     // whole pages in memory, shared ones once (static: all that is set
                              // aside), and buffers for spilled ones
  int64_t bytes_spilled = 0;  // whole pages in spill files
  int64_t bytes_peak = 0;     // highest bytes_held so far
  int64_t bytes_cached = 0;
  int64_t bytes_budget = 0;
  int64_t num_sequences = 0;
  int64_t pages_copied = 0;  // by copy-on-write, since creation
  int64_t bytes_prefix = 0;  // of bytes_held, pages that the prefix tree pins
  int64_t prefix_nodes = 0;
  int64_t prefix_evicted = 0;     // pages, since creation
  int64_t prefix_collisions = 0;  // of hashes, since creation
  std::vector<KvGroupStats> groups = {};
};

/// Who holds how many pages, in all groups and both forms; each page counts once.
struct PageCounts {
  int64_t free = 0;  // that the pools could still hand out; the budget may allow fewer
  int64_t held_by_sequences = 0;
  int64_t held_by_tree = 0;
  int64_t pinned = 0;          // held by both: evicting them frees nothing
  int64_t spilled = 0;         // of those held
  int64_t sequence_bytes = 0;  // in memory, as all bytes here
  int64_t tree_bytes = 0;
  int64_t pinned_bytes = 0;

  [[nodiscard]] int64_t held() const { return held_by_sequences + held_by_tree - pinned; }
  [[nodiscard]] int64_t total() const { return held() + free; }
};

class KvStore {
 public:
  /// kDoesNotFit with the numbers if the system refuses the addresses or the budget the static
  /// reservation. A budget too small for one page is no error: the first reserve() says so.
  [[nodiscard]] static Result<std::unique_ptr<KvStore>> create(KvGeometry geometry,
                                                               const KvStoreOptions& options);
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;
  /// Aborts if a sequence still lives.
  ~KvStore();

  [[nodiscard]] const KvGeometry& geometry() const { return geometry_; }

  [[nodiscard]] KvSequence create_sequence();
  /// A second sequence with the same committed tokens on the same pages. Costs no memory: whoever
  /// writes first copies the last page. Ends the reservation of `seq`: both reserve anew.
  [[nodiscard]] KvSequence fork(const KvSequence& seq);

  /// The longest known prefix of `tokens`, pinned in the prefix tree; see PrefixTree::match().
  [[nodiscard]] PrefixMatch match(const IdentityKey& key, std::span<const TokenId> tokens);
  /// A sequence of what was matched, on the tree's pages. Requires a match of this store whose pin
  /// lives, or one of no tokens.
  [[nodiscard]] KvSequence adopt(const PrefixMatch& match);
  /// Lets others find the pages of `seq`, whose committed tokens are `tokens`. Of pages that the
  /// tree has already, the sequence takes the tree's. Ends its reservation. Requires tokens.size()
  /// == length().
  void publish(const IdentityKey& key, const KvSequence& seq, std::span<const TokenId> tokens,
               PublishTail tail);
  /// Empties the prefix tree, but for what is pinned.
  void forget_prefixes();

  [[nodiscard]] ReservePlan plan_reserve(const KvSequence& seq, int64_t tokens) const;
  /// Makes the `tokens` slots after length() writable in every group; those reserved before count.
  /// Where room is short the prefix tree gives way, then full pages are spilled. kDoesNotFit with
  /// the numbers, and nothing changed, if there is no room.
  [[nodiscard]] Result<void> reserve(const KvSequence& seq, int64_t tokens);
  /// The first `tokens` reserved slots are now valid. Window groups return pages that hold none of
  /// the last window_tokens positions. Requires tokens <= reserved().
  void commit(const KvSequence& seq, int64_t tokens);
  /// Rolls back to `length` committed tokens and ends the reservation. kUnsupported, and nothing
  /// changed, if a window group has already returned pages that a query at `length` sees, or if
  /// `length` lies inside a page of which only the sealed form is left: then the start of that page
  /// is where to roll back to. Going back by one token after a commit() always works. Requires
  /// 0 <= length <= length().
  [[nodiscard]] Result<void> truncate(const KvSequence& seq, int64_t length);

  /// The pages of one group: committed and reserved slots. Spans stay valid until the next call
  /// that changes this sequence; slots from length() on may be written, none before.
  [[nodiscard]] kernels::PagedKvView view(const KvSequence& seq, int32_t group) const;

  /// For a pass over these sequences, some pages of which may be spilled: gives the views that
  /// view() cannot. Null if all of them are in memory. Valid until end_stream(), before which
  /// nothing may change. kDoesNotFit if the system refuses memory for the buffers.
  [[nodiscard]] Result<kernels::LayerStream*> stream(std::span<const KvSequence* const> sequences);
  void end_stream();

  [[nodiscard]] int64_t length(const KvSequence& seq) const;
  [[nodiscard]] int64_t reserved(const KvSequence& seq) const;
  /// Rows of this sequence, as counted in its page tables.
  [[nodiscard]] int64_t used_bytes(const KvSequence& seq) const;
  /// Pages of this sequence that are in memory, shared ones too.
  [[nodiscard]] int64_t held_bytes(const KvSequence& seq) const;
  /// For inspection; valid until the next call that changes this sequence.
  [[nodiscard]] const PageTable& table(const KvSequence& seq, int32_t group) const;

  [[nodiscard]] KvStats stats() const;
  /// Walks page tables and tree.
  [[nodiscard]] PageCounts count_pages() const;

  /// Walks everything: pins equal table entries and tree nodes, free + held = total, the ledger
  /// agrees, tables cover exactly what their sequence needs, reserved slots are private. The first
  /// fault as a sentence.
  [[nodiscard]] std::optional<std::string> find_fault() const;
  /// Aborts with that sentence.
  void check() const;

 private:
  friend class KvSequence;

  struct Sequence {
    std::vector<PageTable> tables;  // one per group
    int64_t length = 0;
    int64_t reserved = 0;
    int64_t used_bytes = 0;  // its share of bytes_used_
  };
  /// What one group lacks for a reservation.
  struct GroupNeed {
    bool copies_last = false;
    int64_t fresh_pages = 0;
    int64_t sealed_pages = 0;
    [[nodiscard]] int64_t open_pages() const { return fresh_pages + (copies_last ? 1 : 0); }
  };
  /// Pages taken for one group before anything is changed.
  struct GroupPages {
    PageRef copy;
    std::vector<PageRef> fresh;
    std::vector<PageRef> sealed;
  };
  /// The pools of one layer group.
  struct GroupPools {
    std::unique_ptr<PagePool> open;
    std::unique_ptr<PagePool> sealed;  // null with a lossless codec
    /// Whose full pages may be spilled: they are read once a pass, and never written.
    [[nodiscard]] PagePool& full() const { return sealed ? *sealed : *open; }
    [[nodiscard]] PageForm full_form() const {
      return sealed ? PageForm::kSealed : PageForm::kOpen;
    }
  };

  KvStore(KvGeometry geometry, const KvStoreOptions& options);
  [[nodiscard]] Result<void> create_pools(const KvStoreOptions& options);
  [[nodiscard]] Result<std::unique_ptr<PagePool>> create_pool(int64_t page_bytes,
                                                              int64_t peak_pages,
                                                              const KvStoreOptions& options);
  [[nodiscard]] Result<void> create_spills(const SpillOptions& options);
  [[nodiscard]] Result<ReservePlan> make_room(const KvSequence& seq, int64_t tokens);
  [[nodiscard]] Result<bool> spill_one();
  [[nodiscard]] bool is_partial_elsewhere(PageId page, size_t group) const;
  void forget_spans(PageId page, size_t group);
  [[nodiscard]] int64_t staging_bytes() const;
  void shrink_staging();
  [[nodiscard]] Sequence& find(const KvSequence& seq);
  [[nodiscard]] const Sequence& find(const KvSequence& seq) const;
  [[nodiscard]] KvSequence adopt(Sequence sequence);
  void release(SeqId id);
  void end_reservation(Sequence& sequence);
  void recount(Sequence& sequence);
  [[nodiscard]] int64_t counted_bytes(const Sequence& sequence, size_t group) const;
  [[nodiscard]] std::optional<Error> find_rollback_fault(const Sequence& sequence, size_t group,
                                                         int64_t length) const;
  [[nodiscard]] std::vector<GroupNeed> needs(const Sequence& sequence, int64_t end) const;
  [[nodiscard]] std::optional<std::vector<GroupPages>> acquire_pages(const Sequence& sequence,
                                                                     int64_t end);
  void count_pages(size_t group, PageForm form, PageCounts& counts) const;
  [[nodiscard]] std::vector<int32_t> count_entries(const PagePool& pool, size_t group,
                                                   PageForm form) const;
  [[nodiscard]] std::optional<std::string> find_pool_fault(size_t group) const;
  [[nodiscard]] std::optional<std::string> find_pin_fault(const PagePool& pool, size_t group,
                                                          PageForm form) const;
  [[nodiscard]] std::optional<std::string> find_form_fault(const Sequence& sequence,
                                                           const LayerGroup& group,
                                                           const PageTableEntry& entry) const;
  [[nodiscard]] std::optional<std::string> find_table_fault(const Sequence& sequence,
                                                            size_t group) const;

  const KvGeometry geometry_;
  MemoryLedger ledger_;            // outlives the pools
  std::vector<GroupPools> pools_;  // one per group; outlive tree and sequences
  PrefixTree tree_;
  std::map<SeqId, Sequence> sequences_;
  Reservation staging_;                  // for them
  std::unique_ptr<SpillReader> reader_;  // null without spilling
  int64_t next_id_ = 0;
  std::atomic<int64_t> bytes_used_{0};
  std::atomic<int64_t> num_sequences_{0};
  std::atomic<int64_t> pages_copied_{0};
};

}  // namespace quire::kv
