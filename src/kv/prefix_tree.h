// prefix_tree.h: pages of earlier contexts, found again by the tokens they hold.
//
// A node is 64 tokens (fewer in the last page of a context) with a page of each layer group; the
// way from the root spells a prefix. Children are found by a chained hash, then tokens are
// compared. A page is shared with whoever matches it and copied by whoever writes. Window groups
// keep pages only where a context was published; those are evicted by themselves:
//
//   tokens   |----64----|----64----|----64----|--22--|
//   global        page       page       page     page
//   window                              page     page     the last W tokens of a resume point
//
// Unpinned leaves go first, least recently used first. Thread rule: one engine thread; the counters
// may be read from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "kv/geometry.h"
#include "kv/identity_key.h"
#include "kv/page_table.h"

namespace quire::kv {

class PrefixTree;
struct PrefixNode;  // kv/prefix_node.h
struct PrefixRoot;

/// Keeps what a match found in the tree. Move-only; its destructor lets go. An empty one pins
/// nothing. Must not outlive its tree.
class PrefixPin {
 public:
  PrefixPin() = default;
  PrefixPin(PrefixPin&& other) noexcept;
  PrefixPin& operator=(PrefixPin&& other) noexcept;
  ~PrefixPin() { reset(); }

  explicit operator bool() const { return tree_ != nullptr; }
  void reset();

 private:
  friend class PrefixTree;
  PrefixPin(PrefixTree* tree, PrefixNode* node);

  PrefixTree* tree_ = nullptr;
  PrefixNode* node_ = nullptr;
};

enum class MissReason : uint8_t {
  kCold,            // nothing that goes on like this was ever here
  kTokenDiffers,    // what is here goes on with another token
  kEvicted,         // it was here, and made room
  kWindowPageGone,  // the tokens are here, but not all pages that a window layer sees
  kKeyDiffers,      // the tokens are here under another identity key
};
/// "cold", "token_differs", "evicted", "window_page_gone", "key_differs".
[[nodiscard]] std::string_view name(MissReason reason);

/// Why a match ended before the last token but one.
struct PrefixMiss {
  MissReason reason = MissReason::kCold;
  std::string_view key_field = {};       // of kKeyDiffers, as first_difference() names it
  int64_t token_index = 0;               // where it ended, or the token that differs
  std::optional<TokenId> expected = {};  // of kTokenDiffers: what the tree goes on with
  std::optional<TokenId> got = {};       // what was asked for there
  int64_t cost_tokens = 0;               // that have to be prefilled
};

struct PrefixMatch {
  int64_t tokens = 0;  // found, from the start
  PrefixPin pin;       // on them, if any
  std::optional<PrefixMiss> miss;
};

/// What publish() does with a last page that is not full.
enum class PublishTail : uint8_t {
  kShare,  // it joins the tree: whoever writes to it next copies it
  kLeave,  // it stays the sequence's own
};

struct PrefixTreeOptions {
  int64_t budget_bytes = INT64_MAX;  // of pages; what passes it is evicted at once
  int32_t hash_bits = 64;            // of the chained hashes; few, to test what collisions do
  bool whole_pages = false;  // share full pages only: such as may be spilled are never copied
};

class PrefixTree {
 public:
  /// `geometry` must outlive it, and so must the pools of the pages that are published.
  PrefixTree(const KvGeometry& geometry, const PrefixTreeOptions& options);
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  /// Aborts if a pin still lives.
  ~PrefixTree();

  /// The longest n < tokens.size() such that every layer group has, along one path of equal tokens
  /// under `key`, the pages that a query at n sees. With a lossy codec n is a multiple of 64, for a
  /// page is encoded as a whole. Marks what it finds as used and pins it.
  [[nodiscard]] PrefixMatch match(const IdentityKey& key, std::span<const TokenId> tokens);
  /// Page tables of a sequence that holds what was matched, one a group.
  [[nodiscard]] std::vector<PageTable> share(const PrefixMatch& match) const;

  /// Adds the pages of a sequence of these committed tokens; `tables` has one table a group. Where
  /// the tree has a full page of the same tokens, the table is given that one: one copy is kept.
  /// Only exact pages join. Requires tables that end at tokens.size() where they are not empty.
  void publish(const IdentityKey& key, std::span<const TokenId> tokens, std::span<PageTable> tables,
               PublishTail tail);

  /// Evicts until `enough` (asked after each) or nothing unpinned is left; whether enough was said.
  /// What frees memory goes before what a sequence still holds.
  bool evict_until(const std::function<bool()>& enough);

  [[nodiscard]] int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] int64_t num_nodes() const { return num_nodes_.load(std::memory_order_relaxed); }
  /// Pages that were evicted, since creation.
  [[nodiscard]] int64_t evicted_pages() const {
    return evicted_pages_.load(std::memory_order_relaxed);
  }
  /// Children whose hash was right and whose tokens were not, since creation.
  [[nodiscard]] int64_t num_collisions() const {
    return collisions_.load(std::memory_order_relaxed);
  }

  /// Adds one to counts[page] for each node that pins a page of this group in this form.
  /// // counts: [pages]
  void count_pages(size_t group, PageForm form, std::span<int32_t> counts) const;
  /// The first broken invariant as a sentence.
  [[nodiscard]] std::optional<std::string> find_fault() const;

 private:
  friend class PrefixPin;
  struct Search;
  class Eviction;

  [[nodiscard]] PrefixRoot* find_root(const IdentityKey& key) const;
  [[nodiscard]] PrefixRoot& root_for(const IdentityKey& key);
  [[nodiscard]] uint64_t chain(const PrefixNode& parent, std::span<const TokenId> block) const;
  [[nodiscard]] PrefixNode* find_child(const PrefixNode& parent, std::span<const TokenId> block);

  [[nodiscard]] Search search(PrefixNode& root, std::span<const TokenId> tokens);
  [[nodiscard]] int64_t usable_tokens(std::span<PrefixNode* const> path, int64_t tokens) const;
  [[nodiscard]] int64_t usable_in_group(size_t group, std::span<PrefixNode* const> path,
                                        int64_t tokens) const;
  void touch(std::span<PrefixNode* const> path, int64_t tokens);
  [[nodiscard]] PrefixMiss explain(const Search& search, std::span<const TokenId> tokens) const;
  [[nodiscard]] PrefixMiss explain_unknown_key(const IdentityKey& key,
                                               std::span<const TokenId> tokens) const;
  [[nodiscard]] bool was_evicted(const PrefixNode& parent, std::span<const TokenId> block,
                                 int64_t longer_than) const;

  [[nodiscard]] PrefixNode& child_for(PrefixNode& parent, std::span<const TokenId> block);
  void add_page(PrefixNode& node, size_t group, PageTable& table, int64_t tokens);
  void set_page(PrefixNode& node, size_t group, PageRef page, int64_t end);
  [[nodiscard]] PageForm form_of(const PrefixNode& node, size_t group) const;
  [[nodiscard]] int64_t page_bytes(const PrefixNode& node, size_t group) const;
  [[nodiscard]] bool is_needed(const PrefixNode& node, size_t group, int64_t tokens) const;
  void drop_page(PrefixNode& node, size_t group);
  void grow(PrefixNode& leaf, std::span<const TokenId> block);
  void attach(PrefixNode& node);
  void detach(PrefixNode& node);
  void remove(PrefixNode& node);
  void remember_eviction(uint64_t hash);
  [[nodiscard]] std::optional<std::string> find_node_fault(const PrefixNode& node) const;
  [[nodiscard]] std::optional<std::string> find_child_fault(const PrefixNode& parent) const;

  const KvGeometry& geometry_;
  const PrefixTreeOptions options_;
  const bool whole_pages_;  // a lossy codec, or asked for: a page is shared as a whole
  std::vector<std::unique_ptr<PrefixRoot>> roots_;
  std::vector<std::unique_ptr<PrefixNode>> nodes_;  // all but the roots' own, in no order
  int64_t clock_ = 0;                               // one tick a match or publish
  int64_t next_id_ = 0;
  int64_t pins_ = 0;
  std::unordered_set<uint64_t> evicted_;  // hashes of nodes evicted lately, for the miss report
  std::deque<uint64_t> evicted_order_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> num_nodes_{0};
  std::atomic<int64_t> evicted_pages_{0};
  std::atomic<int64_t> collisions_{0};
};

}  // namespace quire::kv
