// naive_prefix_store.h: what a KvStore with a prefix tree must do, written as plainly as possible.
//
// A sequence is its tokens and the numbers of its pages; a node is all tokens from the start to its
// end and a page number a group. Everything is found by looking at everything. Nothing here is
// shared with the real store.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire::kv {

struct NaivePrefixGroup {
  int64_t window = 0;  // 0: global
  int64_t sinks = 0;
  int64_t page_bytes = 0;
};

struct NaivePrefixNode {
  std::vector<TokenId> prefix;  // from the start to the node's end
  std::vector<int64_t> pages;   // [group] number, or -1
  std::vector<int64_t> ends;    // [group] slots that are filled
  std::vector<int64_t> used_pages;
  int64_t used = 0;
  int64_t id = 0;
  int64_t pins = 0;

  int64_t end() const { return static_cast<int64_t>(prefix.size()); }
  int64_t begin() const { return (end() - 1) / 64 * 64; }
  bool has_pages() const {
    return std::ranges::any_of(pages, [](int64_t page) { return page >= 0; });
  }
};

struct NaivePrefixSequence {
  std::vector<TokenId> tokens;
  std::vector<std::map<int64_t, int64_t>> pages;  // [group] position / 64 -> page number

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
};

/// Mistakes that the harness must notice.
enum class PrefixFault {
  kNone,
  kMatchesTheLastToken,
  kNeedsOneKeyLess,
  kEvictsTheNewestFirst,
  kEvictsPinnedLeaves,
  kKeepsTwoCopies,
  kForgetsToMark,  // that a match uses what it finds
};

class NaivePrefixStore {
 public:
  NaivePrefixStore(std::vector<NaivePrefixGroup> groups, int64_t budget_bytes,
                   int64_t prefix_budget_bytes, PrefixFault fault)
      : groups_(std::move(groups)),
        budget_bytes_(budget_bytes),
        prefix_budget_bytes_(prefix_budget_bytes),
        fault_(fault) {}

  std::map<int64_t, NaivePrefixSequence>& sequences() { return sequences_; }
  const std::vector<NaivePrefixNode>& nodes() const { return nodes_; }

  void create(int64_t id) { sequences_[id].pages.resize(groups_.size()); }
  void destroy(int64_t id) { sequences_.erase(id); }
  void fork(int64_t from, int64_t to) { sequences_[to] = sequences_.at(from); }

  int64_t pages_held(size_t group) const {
    std::set<int64_t> distinct;
    for (const auto& [id, sequence] : sequences_) {
      for (const auto& [index, page] : sequence.pages[group]) distinct.insert(page);
    }
    for (const NaivePrefixNode& node : nodes_) distinct.insert(node.pages[group]);
    distinct.erase(-1);
    return static_cast<int64_t>(distinct.size());
  }

  int64_t prefix_bytes() const {
    int64_t bytes = 0;
    for (const NaivePrefixNode& node : nodes_) {
      for (size_t g = 0; g < groups_.size(); ++g) {
        bytes += node.pages[g] >= 0 ? groups_[g].page_bytes : 0;
      }
    }
    return bytes;
  }

  /// Whether there was room, perhaps after evicting.
  bool append(int64_t id, const std::vector<TokenId>& more) {
    const auto count = static_cast<int64_t>(more.size());
    while (!fits(id, count) && evict_one(/*only_what_frees=*/true)) continue;
    while (!fits(id, count) && evict_one(/*only_what_frees=*/false)) continue;
    if (!fits(id, count)) return false;
    NaivePrefixSequence& sequence = sequences_.at(id);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const int64_t index : missing(id, g, count)) sequence.pages[g][index] = next_page_++;
    }
    sequence.tokens.insert(sequence.tokens.end(), more.begin(), more.end());
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].window == 0) continue;
      std::erase_if(sequence.pages[g], [&](const auto& page) {
        return page.first * 64 + 63 < sequence.length() - groups_[g].window &&
               page.first * 64 >= groups_[g].sinks;
      });
    }
    return true;
  }

  bool truncate(int64_t id, int64_t length) {
    NaivePrefixSequence& sequence = sequences_.at(id);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int64_t key = 0; key < length; ++key) {
        if (sees(g, length, key) && !sequence.pages[g].contains(key / 64)) return false;
      }
    }
    sequence.tokens.resize(static_cast<size_t>(length));
    for (auto& pages : sequence.pages) {
      std::erase_if(pages, [&](const auto& page) { return page.first * 64 >= length; });
    }
    return true;
  }

  void publish(int64_t id, bool with_tail) {
    NaivePrefixSequence& sequence = sequences_.at(id);
    const int64_t length = with_tail ? sequence.length() : sequence.length() / 64 * 64;
    if (length == 0) return;
    ++clock_;
    for (int64_t begin = 0; begin < length; begin += 64) {
      const int64_t end = std::min(length, begin + 64);
      NaivePrefixNode& node = node_for(first_tokens(sequence.tokens, end));
      node.used = clock_;
      for (size_t g = 0; g < groups_.size(); ++g) join(node, g, sequence, begin, end);
    }
    while (prefix_bytes() > prefix_budget_bytes_ && evict_one(/*only_what_frees=*/true)) continue;
    while (prefix_bytes() > prefix_budget_bytes_ && evict_one(/*only_what_frees=*/false)) continue;
  }

  struct Match {
    int64_t tokens = 0;
    int64_t known = 0;     // equal tokens, whatever pages are there
    int64_t node_id = -1;  // where it ends
  };

  Match match(const std::vector<TokenId>& tokens) {
    Match match;
    const auto size = static_cast<int64_t>(tokens.size());
    const int64_t limit = fault_ == PrefixFault::kMatchesTheLastToken ? size : size - 1;
    if (nodes_.empty()) return match;  // not even a root: no tick of the clock
    ++clock_;
    for (int64_t n = std::max<int64_t>(limit, 0); n > 0 && match.tokens == 0; --n) {
      for (const NaivePrefixNode& node : nodes_) {
        if (node.begin() >= n || node.end() < n || !begins_alike(node, tokens, n)) continue;
        match.known = std::max(match.known, n);
        if (!has_all_pages(node, tokens, n)) continue;
        if (match.tokens == 0 || node.id < match.node_id) match = {n, match.known, node.id};
      }
    }
    if (match.tokens > 0 && fault_ != PrefixFault::kForgetsToMark) mark(match, tokens);
    return match;
  }

  void adopt(int64_t id, const Match& match, const std::vector<TokenId>& tokens) {
    create(id);
    NaivePrefixSequence& sequence = sequences_.at(id);
    sequence.tokens = first_tokens(tokens, match.tokens);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int64_t key = 0; key < match.tokens; ++key) {
        if (!sees(g, match.tokens, key)) continue;
        sequence.pages[g][key / 64] = holder(match, tokens, key).pages[g];
      }
    }
  }

  void pin(int64_t node_id, int64_t change) {
    for (NaivePrefixNode& node : nodes_) {
      if (node.id == node_id) node.pins += change;
    }
  }

  void forget() {
    while (evict_one(/*only_what_frees=*/true)) continue;
    while (evict_one(/*only_what_frees=*/false)) continue;
  }

 private:
  static std::vector<TokenId> first_tokens(const std::vector<TokenId>& tokens, int64_t count) {
    return {tokens.begin(), tokens.begin() + count};
  }

  bool sees(size_t group, int64_t query, int64_t key) const {
    if (groups_[group].window == 0 || key < groups_[group].sinks) return true;
    const int64_t less = fault_ == PrefixFault::kNeedsOneKeyLess ? 1 : 0;
    return query - key < groups_[group].window - less;
  }

  static bool begins_alike(const NaivePrefixNode& node, const std::vector<TokenId>& tokens,
                           int64_t n) {
    return std::equal(tokens.begin(), tokens.begin() + n, node.prefix.begin());
  }

  /// The node that holds position `key` on the way to the match.
  NaivePrefixNode& holder(const Match& match, const std::vector<TokenId>& tokens, int64_t key) {
    const int64_t last_begin = (match.tokens - 1) / 64 * 64;
    for (NaivePrefixNode& node : nodes_) {
      const bool is_last = key >= last_begin && node.id == match.node_id;
      const bool is_inner = key < last_begin && node.end() == key / 64 * 64 + 64 &&
                            begins_alike(node, tokens, node.end());
      if (is_last || is_inner) return node;
    }
    std::abort();
  }

  bool has_all_pages(const NaivePrefixNode& last, const std::vector<TokenId>& tokens, int64_t n) {
    const Match match{n, n, last.id};
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int64_t key = 0; key < n; ++key) {
        if (sees(g, n, key) && holder(match, tokens, key).ends[g] <= key % 64) return false;
      }
    }
    return true;
  }

  bool sees_any_of(size_t group, int64_t query, const NaivePrefixNode& node) const {
    for (int64_t key = node.begin(); key < std::min(node.end(), query); ++key) {
      if (sees(group, query, key)) return true;
    }
    return false;
  }

  void mark(const Match& match, const std::vector<TokenId>& tokens) {
    for (int64_t key = 0; key < match.tokens; ++key) {
      NaivePrefixNode& node = holder(match, tokens, key);
      node.used = clock_;
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (sees_any_of(g, match.tokens, node)) node.used_pages[g] = clock_;
      }
    }
  }

  /// The node that `prefix` ends in: there, or grown out of a shorter one, or new.
  NaivePrefixNode& node_for(const std::vector<TokenId>& prefix) {
    const auto end = static_cast<int64_t>(prefix.size());
    NaivePrefixNode* found = nullptr;
    for (NaivePrefixNode& node : nodes_) {
      if (node.begin() != (end - 1) / 64 * 64) continue;
      if (begins_alike(node, prefix, std::min(end, node.end()))) {
        if (found == nullptr || node.id < found->id) found = &node;
      }
    }
    if (found == nullptr) {
      const std::vector<int64_t> none(groups_.size(), -1);
      const std::vector<int64_t> zeroes(groups_.size(), 0);
      nodes_.push_back({prefix, none, zeroes, zeroes, 0, next_id_++, 0});
      return nodes_.back();
    }
    if (found->end() < end) found->prefix = prefix;
    return *found;
  }

  void join(NaivePrefixNode& node, size_t g, NaivePrefixSequence& sequence, int64_t begin,
            int64_t end) {
    const auto page = sequence.pages[g].find(begin / 64);
    if (page == sequence.pages[g].end()) return;
    if (node.ends[g] < end - begin) {
      node.pages[g] = page->second;
      node.ends[g] = end - begin;
    } else if (sequence.length() >= begin + 64 && fault_ != PrefixFault::kKeepsTwoCopies) {
      page->second = node.pages[g];
    }
    node.used_pages[g] = clock_;
  }

  bool is_held_by_a_sequence(size_t group, int64_t page) const {
    for (const auto& [id, sequence] : sequences_) {
      for (const auto& [index, number] : sequence.pages[group]) {
        if (number == page) return true;
      }
    }
    return false;
  }

  bool is_shared(int64_t id, size_t group, int64_t page) const {
    for (const NaivePrefixNode& node : nodes_) {
      if (node.pages[group] == page) return true;
    }
    for (const auto& [other, sequence] : sequences_) {
      if (other == id) continue;
      for (const auto& [index, number] : sequence.pages[group]) {
        if (number == page) return true;
      }
    }
    return false;
  }

  /// Page indices that the next `count` tokens write and that need a new number.
  std::vector<int64_t> missing(int64_t id, size_t group, int64_t count) const {
    const NaivePrefixSequence& sequence = sequences_.at(id);
    std::vector<int64_t> result;
    for (int64_t p = sequence.length(); p < sequence.length() + count; ++p) {
      if (!result.empty() && result.back() == p / 64) continue;
      const auto found = sequence.pages[group].find(p / 64);
      if (found == sequence.pages[group].end() || is_shared(id, group, found->second)) {
        result.push_back(p / 64);
      }
    }
    return result;
  }

  bool fits(int64_t id, int64_t count) const {
    int64_t bytes = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto pages = pages_held(g) + static_cast<int64_t>(missing(id, g, count).size());
      if (pages > budget_bytes_ / groups_[g].page_bytes) return false;
      bytes += pages * groups_[g].page_bytes;
    }
    return bytes <= budget_bytes_;
  }

  bool is_leaf(const NaivePrefixNode& node) const {
    return std::ranges::none_of(nodes_, [&](const NaivePrefixNode& other) {
      return other.begin() == node.end() && begins_alike(node, other.prefix, node.end());
    });
  }

  /// Whether a pinned node's match sees into this one.
  bool is_protected(const NaivePrefixNode& node) const {
    for (const NaivePrefixNode& pinned : nodes_) {
      if (pinned.pins == 0) continue;
      const bool is_on_the_way = node.end() <= pinned.end() && node.begin() <= pinned.begin() &&
                                 begins_alike(node, pinned.prefix, node.end());
      if (!is_on_the_way) continue;
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (groups_[g].window == 0) continue;
        if (node.begin() < groups_[g].sinks) return true;
        if (pinned.begin() + 1 - (node.end() - 1) < groups_[g].window) return true;
      }
    }
    return false;
  }

  bool evict_one(bool only_what_frees) {
    using Rank = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // age, depth, group, id
    std::optional<std::pair<Rank, size_t>> oldest;
    const auto consider = [&](const Rank& rank, size_t index) {
      const bool wins =
          !oldest || (fault_ == PrefixFault::kEvictsTheNewestFirst ? rank > oldest->first
                                                                   : rank < oldest->first);
      if (wins) oldest = {rank, index};
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaivePrefixNode& node = nodes_[i];
      const bool may_go = node.pins == 0 || fault_ == PrefixFault::kEvictsPinnedLeaves;
      bool frees = !node.has_pages();
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (node.pages[g] < 0) continue;
        const bool frees_page = !is_held_by_a_sequence(g, node.pages[g]);
        frees = frees || frees_page;
        if (groups_[g].window == 0 || is_protected(node)) continue;
        if (only_what_frees && !frees_page) continue;
        consider({node.used_pages[g], -node.begin(), static_cast<int64_t>(g), node.id}, i);
      }
      if (may_go && is_leaf(node) && (frees || !only_what_frees)) {
        consider({node.used, -node.begin(), -1, node.id}, i);
      }
    }
    if (!oldest) return false;
    NaivePrefixNode& node = nodes_[oldest->second];
    const int64_t group = std::get<2>(oldest->first);
    if (group >= 0) {
      node.pages[static_cast<size_t>(group)] = -1;
      node.ends[static_cast<size_t>(group)] = 0;
      if (!is_leaf(node) || node.pins > 0 || node.has_pages()) return true;
    }
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(oldest->second));
    return true;
  }

  std::vector<NaivePrefixGroup> groups_;
  int64_t budget_bytes_;
  int64_t prefix_budget_bytes_;
  PrefixFault fault_;
  std::map<int64_t, NaivePrefixSequence> sequences_;
  std::vector<NaivePrefixNode> nodes_;
  int64_t next_page_ = 0;
  int64_t next_id_ = 0;
  int64_t clock_ = 0;
};

}  // namespace quire::kv
