// The integrity walk of PrefixTree.
#include <fmt/format.h>

#include <algorithm>

#include "kv/prefix_node.h"
#include "kv/prefix_tree.h"

namespace quire::kv {

void PrefixTree::count_pages(size_t group, PageForm form, std::span<int32_t> counts) const {
  for (const auto& node : nodes_) {
    if (form_of(*node, group) != form) continue;
    const PageRef& page = node->pages[group].page;
    if (page) ++counts[static_cast<size_t>(page.id().value)];
  }
}

std::optional<std::string> PrefixTree::find_fault() const {
  int64_t bytes = 0;
  int64_t pins = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const PrefixNode& node = *nodes_[i];
    if (node.index != i) return fmt::format("node {} stands at {}", i, node.index);
    if (auto fault = find_node_fault(node)) {
      return fmt::format("the node of tokens {} to {}: {}", node.begin, node.end(), *fault);
    }
    if (auto fault = find_child_fault(node)) return fault;
    for (size_t g = 0; g < node.pages.size(); ++g) {
      if (node.pages[g].page) bytes += page_bytes(node, g);
    }
    pins += node.pins;
  }
  for (const auto& root : roots_) {
    if (auto fault = find_child_fault(root->node)) return fault;
  }
  if (bytes != this->bytes()) {
    return fmt::format("the nodes hold {} bytes, {} are counted", bytes, this->bytes());
  }
  if (pins != pins_) return fmt::format("{} pins, {} are counted", pins, pins_);
  if (num_nodes() != static_cast<int64_t>(nodes_.size())) {
    return fmt::format("{} nodes, {} are counted", nodes_.size(), num_nodes());
  }
  return std::nullopt;
}

std::optional<std::string> PrefixTree::find_node_fault(const PrefixNode& node) const {
  if (node.parent == nullptr) return "has no parent";
  if (node.begin != node.parent->end()) return "does not begin where its parent ends";
  const int64_t held = count(node.tokens);
  if (held < 1 || held > kPageTokens) return fmt::format("holds {} tokens", held);
  if (held < kPageTokens && (!node.is_leaf() || whole_pages_)) return "is not full";
  if (node.hash != chain(*node.parent, node.tokens)) return "its hash is another";
  const auto [first, last] = node.parent->children.equal_range(node.hash);
  const auto mine = std::count_if(first, last, [&](const auto& c) { return c.second == &node; });
  if (mine != 1) return fmt::format("its parent lists it {} times", mine);
  for (size_t g = 0; g < node.pages.size(); ++g) {
    const PrefixPage& page = node.pages[g];
    if (static_cast<bool>(page.page) != (page.end > 0) || page.end > held) {
      return fmt::format("group {} has {} slots", g, page.end);
    }
    if (!geometry_.groups()[g].is_window() && page.end != held) {
      return fmt::format("global group {} has {} of {} slots", g, page.end, held);
    }
  }
  return std::nullopt;
}

/// No child begins with all of another's tokens: each prefix has one way.
std::optional<std::string> PrefixTree::find_child_fault(const PrefixNode& parent) const {
  for (const auto& [hash, child] : parent.children) {
    if (child->parent != &parent) return "a child has another parent";
    for (const auto& [other_hash, other] : parent.children) {
      if (other == child || other->tokens.size() > child->tokens.size()) continue;
      if (std::ranges::mismatch(other->tokens, child->tokens).in1 == other->tokens.end()) {
        return fmt::format("two children after {} tokens begin alike", parent.end());
      }
    }
  }
  return std::nullopt;
}

}  // namespace quire::kv
