// How a PrefixTree finds the longest known prefix, and says why it ends there.
#include <algorithm>

#include "base/check.h"
#include "base/hash.h"
#include "kv/prefix_node.h"
#include "kv/prefix_tree.h"

namespace quire::kv {
namespace {

using Tokens = std::span<const TokenId>;

int64_t whole_pages_of(int64_t tokens) {
  return tokens / kPageTokens * kPageTokens;
}

/// The child that shares the most tokens with `block`; of equals the one used last. Nothing without
/// children.
const PrefixNode* closest_child(const PrefixNode& parent, Tokens block) {
  const PrefixNode* closest = nullptr;
  int64_t most = 0;
  for (const auto& entry : parent.children) {
    const PrefixNode* child = entry.second;
    const int64_t common = common_tokens(child->tokens, block);
    const bool wins = closest == nullptr || common > most ||
                      (common == most && child->used > closest->used) ||
                      (common == most && child->used == closest->used && child->id > closest->id);
    if (!wins) continue;
    closest = child;
    most = common;
  }
  return closest;
}

}  // namespace

/// What a walk along the tokens found.
struct PrefixTree::Search {
  std::vector<PrefixNode*> path;     // of the longest match whose pages are there
  int64_t tokens = 0;                // its length
  const PrefixNode* last = nullptr;  // the deepest full node of equal tokens, or the root
  int64_t known = 0;                 // longest run of equal tokens, whatever pages are there
};

std::string_view name(MissReason reason) {
  switch (reason) {
    case MissReason::kCold:
      return "cold";
    case MissReason::kTokenDiffers:
      return "token_differs";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kWindowPageGone:
      return "window_page_gone";
    case MissReason::kKeyDiffers:
      return "key_differs";
  }
  QUIRE_CHECK(false, "a reason outside its enumeration");
}

PrefixMatch PrefixTree::match(const IdentityKey& key, Tokens tokens) {
  PrefixMatch match;
  PrefixRoot* root = find_root(key);
  if (root == nullptr) {
    if (tokens.size() > 1) match.miss = explain_unknown_key(key, tokens);
    return match;
  }
  ++clock_;
  const Search found = search(root->node, tokens);
  match.tokens = found.tokens;
  if (match.tokens + 1 < count(tokens)) match.miss = explain(found, tokens);
  if (match.tokens > 0) {
    touch(found.path, found.tokens);
    match.pin = PrefixPin(this, found.path.back());
  }
  return match;
}

/// Walks down full pages of equal tokens. At each step a sibling may share part of the page, and
/// have window pages that the main way lacks.
PrefixTree::Search PrefixTree::search(PrefixNode& root, Tokens tokens) {
  const int64_t limit = std::max<int64_t>(count(tokens) - 1, 0);
  Search best{.path = {}, .tokens = 0, .last = &root, .known = 0};
  std::vector<PrefixNode*> path;
  // Of equally long ones the path of the older last node, so that equal histories end equally.
  const auto consider = [&](int64_t until) {
    const int64_t n = usable_tokens(path, until);
    if (n == 0 || n < best.tokens) return;
    const auto last = path.begin() + (n - 1) / kPageTokens;
    if (n == best.tokens && (*last)->id >= best.path.back()->id) return;
    best.tokens = n;
    best.path.assign(path.begin(), last + 1);
  };
  for (PrefixNode* node = &root;;) {
    const int64_t base = node->end();
    const Tokens block = block_at(tokens, base, limit);
    PrefixNode* next = count(block) == kPageTokens ? find_child(*node, block) : nullptr;
    for (const auto& entry : node->children) {
      PrefixNode* child = entry.second;
      if (child == next) continue;
      const int64_t common = common_tokens(child->tokens, block);
      best.known = std::max(best.known, base + common);
      if (common == 0 || base + common < best.tokens) continue;
      path.push_back(child);
      consider(base + common);
      path.pop_back();
    }
    if (next == nullptr) break;
    path.push_back(next);
    node = next;
    best.last = node;
    best.known = std::max(best.known, node->end());
  }
  consider(best.last->end());
  return best;
}

/// The longest n <= tokens along the path whose pages are all there. A page that is missing in one
/// group lowers n, and then other pages may be needed in another: until nothing changes.
int64_t PrefixTree::usable_tokens(std::span<PrefixNode* const> path, int64_t tokens) const {
  if (whole_pages_) tokens = whole_pages_of(tokens);
  while (tokens > 0) {
    int64_t usable = tokens;
    for (size_t g = 0; g < geometry_.groups().size(); ++g) {
      usable = std::min(usable, usable_in_group(g, path, tokens));
    }
    if (usable == tokens) return tokens;
    tokens = whole_pages_ ? whole_pages_of(usable) : usable;
  }
  return 0;
}

/// `tokens` if the group has what a query there sees; else the end of what is there before the
/// first gap that it meets from the end on. No n between could do without the same page.
int64_t PrefixTree::usable_in_group(size_t group, std::span<PrefixNode* const> path,
                                    int64_t tokens) const {
  for (int64_t i = (tokens - 1) / kPageTokens; i >= 0; --i) {
    const PrefixNode& node = *path[static_cast<size_t>(i)];
    if (!is_needed(node, group, tokens)) continue;
    const int64_t have = node.begin + node.pages[group].end;
    if (have < std::min(tokens, node.begin + kPageTokens)) return have;
  }
  return tokens;
}

void PrefixTree::touch(std::span<PrefixNode* const> path, int64_t tokens) {
  for (PrefixNode* node : path) node->used = clock_;
  for (size_t g = 0; g < geometry_.groups().size(); ++g) {
    for (PrefixNode* node : path) {
      if (is_needed(*node, g, tokens)) node->pages[g].used = clock_;
    }
  }
}

PrefixMiss PrefixTree::explain(const Search& search, Tokens tokens) const {
  PrefixMiss miss{.token_index = search.known, .cost_tokens = count(tokens) - search.tokens};
  const int64_t reachable = whole_pages_ ? whole_pages_of(search.known) : search.known;
  if (search.tokens < reachable) {
    miss.reason = MissReason::kWindowPageGone;
    miss.token_index = search.tokens;
    return miss;
  }
  const PrefixNode& last = *search.last;
  const Tokens block = block_at(tokens, last.end(), count(tokens));
  if (was_evicted(last, block, search.known - last.end())) {
    miss.reason = MissReason::kEvicted;
    return miss;
  }
  const PrefixNode* child = closest_child(last, block);
  const auto at = static_cast<size_t>(search.known - last.end());
  if (child == nullptr || at >= child->tokens.size() || at >= block.size()) return miss;
  if (child->tokens[at] == block[at]) return miss;
  miss.reason = MissReason::kTokenDiffers;
  miss.expected = child->tokens[at];
  miss.got = block[at];
  return miss;
}

/// No page was ever kept under this key; perhaps the same tokens are here under another that the
/// reader may know of.
PrefixMiss PrefixTree::explain_unknown_key(const IdentityKey& key, Tokens tokens) const {
  PrefixMiss miss{.cost_tokens = count(tokens)};
  const Tokens block = block_at(tokens, 0, count(tokens));
  for (const auto& root : roots_) {
    if (!may_mention(root->key, key)) continue;
    const PrefixNode* child = closest_child(root->node, block);
    if (child == nullptr || common_tokens(child->tokens, block) == 0) continue;
    miss.reason = MissReason::kKeyDiffers;
    miss.key_field = first_difference(root->key, key).value();
    return miss;
  }
  PrefixNode nothing;
  nothing.hash = chain_seed(key);
  if (was_evicted(nothing, block, 0)) miss.reason = MissReason::kEvicted;
  return miss;
}

/// Whether a node that began with more than `longer_than` tokens of `block` stood here lately.
bool PrefixTree::was_evicted(const PrefixNode& parent, Tokens block, int64_t longer_than) const {
  if (evicted_.empty()) return false;
  for (int64_t n = count(block); n > longer_than; --n) {
    if (evicted_.contains(chain(parent, block.first(static_cast<size_t>(n))))) return true;
  }
  return false;
}

}  // namespace quire::kv
