// How a PrefixTree makes room.
#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_set>

#include "kv/prefix_node.h"
#include "kv/prefix_tree.h"

namespace quire::kv {
namespace {

// Enough to name the reason of a miss; 8 bytes and a list entry each.
constexpr size_t kRememberedEvictions = 16'384;

}  // namespace

/// One run of evict_until(): candidates by age, found once.
///
/// A candidate is a leaf with all its pages, or the page of a window group anywhere. Of equal age,
/// what stands deeper goes first, and a leaf before a window page.
class PrefixTree::Eviction {
 public:
  enum class Choose : uint8_t { kWhatFreesMemory, kAnything };

  Eviction(PrefixTree& tree, Choose choose) : tree_(tree), choose_(choose) {
    protect_pinned_windows();
    for (const auto& node : tree_.nodes_) {
      add_leaf(*node);
      for (size_t g = 0; g < node->pages.size(); ++g) add_window_page(*node, g);
    }
  }

  bool run(const std::function<bool()>& enough) {
    while (!candidates_.empty()) {
      const Candidate oldest = candidates_.top();
      candidates_.pop();
      if (removed_.contains(oldest.node)) continue;
      if (oldest.is_leaf()) {
        remove_leaf(*oldest.node);
      } else if (!drop_window_page(*oldest.node, static_cast<size_t>(oldest.group))) {
        continue;
      }
      if (enough()) return true;
    }
    return false;
  }

 private:
  struct Candidate {
    int64_t used = 0;
    int64_t depth = 0;
    int64_t id = 0;
    int32_t group = -1;  // -1: the whole leaf
    PrefixNode* node = nullptr;

    bool is_leaf() const { return group < 0; }
    /// Orders a priority queue so that what goes first is on top.
    bool operator<(const Candidate& other) const {
      return std::tuple(other.used, depth, other.group, other.id) <
             std::tuple(used, other.depth, group, id);
    }
  };

  /// What a query at the end of a pinned match sees; it ends somewhere in the pinned node.
  void protect_pinned_windows() {
    if (tree_.pins_ == 0) return;
    for (const auto& node : tree_.nodes_) {
      if (node->pins == 0) continue;
      for (const LayerGroup& group : tree_.geometry_.groups()) {
        if (!group.is_window()) continue;
        const int64_t first = group.first_needed(node->begin + 1);
        for (PrefixNode* at = node.get(); at->parent != nullptr; at = at->parent) {
          if (at->end() > first || at->begin < group.sink_tokens) protected_.insert(at);
        }
      }
    }
  }

  void add_leaf(PrefixNode& node) {
    if (!node.is_leaf() || node.pins > 0) return;
    // A leaf without pages serves nobody.
    const bool wanted = choose_ == Choose::kAnything || node.frees_memory() || !node.has_pages();
    if (wanted) candidates_.push({node.used, node.begin, node.id, -1, &node});
  }

  void add_window_page(PrefixNode& node, size_t group) {
    const PrefixPage& page = node.pages[group];
    if (!page.page || !tree_.geometry_.groups()[group].is_window()) return;
    if (protected_.contains(&node)) return;
    if (choose_ == Choose::kWhatFreesMemory && page.page.is_shared()) return;
    candidates_.push({page.used, node.begin, node.id, static_cast<int32_t>(group), &node});
  }

  bool drop_window_page(PrefixNode& node, size_t group) {
    if (!node.pages[group].page) return false;
    tree_.drop_page(node, group);
    if (node.is_leaf() && node.pins == 0 && !node.has_pages()) remove_leaf(node);
    return true;
  }

  void remove_leaf(PrefixNode& node) {
    PrefixNode* parent = node.parent;
    removed_.insert(&node);
    tree_.remove(node);
    if (parent->parent != nullptr) add_leaf(*parent);
  }

  PrefixTree& tree_;
  const Choose choose_;
  std::priority_queue<Candidate> candidates_;
  std::unordered_set<const PrefixNode*> protected_;
  std::unordered_set<const PrefixNode*> removed_;  // compared only, never read
};

bool PrefixTree::evict_until(const std::function<bool()>& enough) {
  bool done = Eviction(*this, Eviction::Choose::kWhatFreesMemory).run(enough);
  // A page that is also some sequence's frees nothing; yet that sequence may then write to it
  // without a copy, for which there is no room.
  if (!done) done = Eviction(*this, Eviction::Choose::kAnything).run(enough);
  std::erase_if(roots_, [](const auto& root) { return root->node.is_leaf(); });
  return done;
}

/// Takes a leaf out. Its address may be reused from now on.
void PrefixTree::remove(PrefixNode& node) {
  for (size_t g = 0; g < node.pages.size(); ++g) drop_page(node, g);
  remember_eviction(node.hash);
  detach(node);
  const size_t index = node.index;
  std::swap(nodes_[index], nodes_.back());
  nodes_[index]->index = index;
  nodes_.pop_back();
  num_nodes_.fetch_sub(1, std::memory_order_relaxed);
}

void PrefixTree::remember_eviction(uint64_t hash) {
  if (!evicted_.insert(hash).second) return;
  evicted_order_.push_back(hash);
  if (evicted_order_.size() <= kRememberedEvictions) return;
  evicted_.erase(evicted_order_.front());
  evicted_order_.pop_front();
}

}  // namespace quire::kv
