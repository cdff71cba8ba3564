// prefix_node.h: what a PrefixTree is made of; for its own sources.
//
// Nodes live in the tree's list and point at each other; an inner node is always full, and no
// node's tokens begin with all of a sibling's. Plain data: PrefixTree keeps it consistent.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "kv/geometry.h"
#include "kv/identity_key.h"
#include "kv/page_pool.h"

namespace quire::kv {

/// A node's page of one group, in the form in which later tokens read it: sealed with a lossy codec
/// but for the page at position 0. The first `end` slots are the node's tokens.
struct PrefixPage {
  PageRef page;  // empty: not here, or not any more
  int64_t end = 0;
  int64_t used = 0;  // clock of the last match or publish that needed it
};

struct PrefixNode {
  PrefixNode* parent = nullptr;   // of a root: none
  std::vector<TokenId> tokens;    // 1 to 64; a root's: none
  int64_t begin = 0;              // position of the first
  uint64_t hash = 0;              // of all tokens from the root on, shrunk
  std::vector<PrefixPage> pages;  // one a group
  std::unordered_multimap<uint64_t, PrefixNode*> children;
  int64_t used = 0;
  int64_t id = 0;    // in order of creation
  size_t index = 0;  // in the tree's list
  int32_t pins = 0;

  [[nodiscard]] int64_t end() const { return begin + static_cast<int64_t>(tokens.size()); }
  [[nodiscard]] bool is_leaf() const { return children.empty(); }
  [[nodiscard]] bool has_pages() const {
    for (const PrefixPage& page : pages) {
      if (page.page) return true;
    }
    return false;
  }
  /// Whether letting go of a page would free it.
  [[nodiscard]] bool frees_memory() const {
    for (const PrefixPage& page : pages) {
      if (page.page && !page.page.is_shared()) return true;
    }
    return false;
  }
};

inline int64_t count(std::span<const TokenId> tokens) {
  return static_cast<int64_t>(tokens.size());
}

/// Tokens that both begin with.
inline int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

/// A page's worth of tokens from `begin` on, none from `end` on.
inline std::span<const TokenId> block_at(std::span<const TokenId> tokens, int64_t begin,
                                         int64_t end) {
  const int64_t most = std::clamp<int64_t>(end - begin, 0, kPageTokens);
  return tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(most));
}

struct PrefixRoot {
  IdentityKey key;
  PrefixNode node;
};

}  // namespace quire::kv
