#include "kv/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "kv/prefix_node.h"

namespace quire::kv {
namespace {

using Tokens = std::span<const TokenId>;

/// The table's entry for the page that starts at `base`, if it has one that any reader may use:
/// exact, and filled from its first slot on.
std::optional<size_t> exact_entry(const PageTable& table, int64_t base) {
  const auto entries = table.entries();
  const auto found = std::ranges::lower_bound(
      entries, base, {}, [](const PageTableEntry& e) { return int64_t{e.logical_base}; });
  if (found == entries.end() || found->logical_base != base) return std::nullopt;
  if (found->stored_base != found->logical_base || found->begin != 0) return std::nullopt;
  return static_cast<size_t>(found - entries.begin());
}

}  // namespace

PrefixPin::PrefixPin(PrefixTree* tree, PrefixNode* node) : tree_(tree), node_(node) {
  ++node->pins;
  ++tree->pins_;
}

PrefixPin::PrefixPin(PrefixPin&& other) noexcept
    : tree_(std::exchange(other.tree_, nullptr)), node_(std::exchange(other.node_, nullptr)) {}

PrefixPin& PrefixPin::operator=(PrefixPin&& other) noexcept {
  PrefixPin taken(std::move(other));
  std::swap(tree_, taken.tree_);
  std::swap(node_, taken.node_);
  return *this;
}

void PrefixPin::reset() {
  if (tree_ == nullptr) return;
  --tree_->pins_;
  --node_->pins;
  tree_ = nullptr;
  node_ = nullptr;
}

PrefixTree::PrefixTree(const KvGeometry& geometry, const PrefixTreeOptions& options)
    : geometry_(geometry),
      options_(options),
      whole_pages_(options.whole_pages || !is_lossless(geometry.codecs())) {
  QUIRE_CHECK_LE(1, options.hash_bits);
  QUIRE_CHECK_LE(options.hash_bits, 64);
  QUIRE_CHECK_LE(0, options.budget_bytes);
}

PrefixTree::~PrefixTree() {
  QUIRE_CHECK_EQ(pins_, 0);
}

PrefixRoot* PrefixTree::find_root(const IdentityKey& key) const {
  const auto found = std::ranges::find_if(
      roots_, [&](const auto& root) { return !first_difference(root->key, key); });
  return found == roots_.end() ? nullptr : found->get();
}

PrefixRoot& PrefixTree::root_for(const IdentityKey& key) {
  if (PrefixRoot* root = find_root(key)) return *root;
  // Callers may bring ever new salts: what holds nothing any more goes.
  std::erase_if(roots_, [](const auto& known) { return known->node.is_leaf(); });
  auto root = std::make_unique<PrefixRoot>();
  root->key = key;
  root->node.hash = chain_seed(key);
  roots_.push_back(std::move(root));
  return *roots_.back();
}

uint64_t PrefixTree::chain(const PrefixNode& parent, Tokens block) const {
  return hash64(std::as_bytes(block), parent.hash) >> (64 - options_.hash_bits);
}

/// The child that begins with exactly this block. The hash finds it, the tokens decide.
PrefixNode* PrefixTree::find_child(const PrefixNode& parent, Tokens block) {
  const auto [first, last] = parent.children.equal_range(chain(parent, block));
  for (auto child = first; child != last; ++child) {
    if (std::ranges::equal(child->second->tokens, block)) return child->second;
    collisions_.fetch_add(1, std::memory_order_relaxed);
  }
  return nullptr;
}

std::vector<PageTable> PrefixTree::share(const PrefixMatch& match) const {
  QUIRE_CHECK(match.tokens == 0 || match.pin.tree_ == this, "a match that is pinned in this tree");
  std::vector<PageTable> tables(geometry_.groups().size());
  std::vector<const PrefixNode*> path;
  for (const PrefixNode* node = match.pin.node_; node != nullptr && node->parent != nullptr;
       node = node->parent) {
    path.insert(path.begin(), node);
  }
  for (size_t g = 0; g < tables.size(); ++g) {
    for (const PrefixNode* node : path) {
      if (!is_needed(*node, g, match.tokens)) continue;
      const auto base = static_cast<int32_t>(node->begin);
      const int64_t end = std::min(kPageTokens, match.tokens - node->begin);
      PageTableEntry entry{
          .stored_base = base, .logical_base = base, .begin = 0, .end = static_cast<int16_t>(end)};
      entry.form(form_of(*node, g)) = node->pages[g].page.share();
      tables[g].append_behind_break(std::move(entry));
    }
  }
  return tables;
}

void PrefixTree::publish(const IdentityKey& key, Tokens tokens, std::span<PageTable> tables,
                         PublishTail tail) {
  QUIRE_CHECK_EQ(tables.size(), geometry_.groups().size());
  for (const PageTable& table : tables) {
    if (!table.empty()) QUIRE_CHECK_EQ(table.end_position(), count(tokens));
  }
  const bool whole_pages = whole_pages_ || tail == PublishTail::kLeave;
  const int64_t end = whole_pages ? count(tokens) / kPageTokens * kPageTokens : count(tokens);
  if (end == 0) return;
  ++clock_;
  PrefixNode* node = &root_for(key).node;
  for (int64_t base = 0; base < end; base += kPageTokens) {
    const Tokens block = block_at(tokens, base, end);
    node = &child_for(*node, block);
    node->used = clock_;
    for (size_t g = 0; g < tables.size(); ++g) add_page(*node, g, tables[g], count(block));
  }
  if (bytes() > options_.budget_bytes) {
    evict_until([this] { return bytes() <= options_.budget_bytes; });
  }
}

/// The child whose tokens begin with `block`: found, grown from one that `block` continues, or new.
PrefixNode& PrefixTree::child_for(PrefixNode& parent, Tokens block) {
  if (PrefixNode* found = find_child(parent, block)) return *found;
  PrefixNode* known = nullptr;
  for (const auto& entry : parent.children) {
    PrefixNode* child = entry.second;
    const int64_t common = common_tokens(child->tokens, block);
    if (common < std::min(count(block), count(child->tokens))) continue;
    if (known == nullptr || child->id < known->id) known = child;
  }
  if (known != nullptr) {
    if (count(known->tokens) < count(block)) grow(*known, block);
    return *known;
  }
  auto node = std::make_unique<PrefixNode>();
  node->parent = &parent;
  node->tokens.assign(block.begin(), block.end());
  node->begin = parent.end();
  node->pages.resize(geometry_.groups().size());
  node->id = next_id_++;
  node->index = nodes_.size();
  attach(*node);
  nodes_.push_back(std::move(node));
  num_nodes_.fetch_add(1, std::memory_order_relaxed);
  return *nodes_.back();
}

/// Takes the table's page for the node's first `tokens` tokens, or gives the table the node's.
void PrefixTree::add_page(PrefixNode& node, size_t group, PageTable& table, int64_t tokens) {
  const auto index = exact_entry(table, node.begin);
  if (!index) return;
  const PageTableEntry& entry = table.entries()[*index];
  PrefixPage& mine = node.pages[group];
  const PageForm form = form_of(node, group);
  const PageRef& theirs = entry.form(form);
  if (!theirs) return;
  if (mine.end < tokens) {
    set_page(node, group, theirs.share(), tokens);
  } else if (entry.end == kPageTokens && theirs.id() != mine.page.id()) {
    // Equal tokens under an equal key are equal bits: law 1.
    table.replace_page(*index, form, mine.page.share());
  }
  mine.used = clock_;
}

/// In which form those behind the node read its page.
PageForm PrefixTree::form_of(const PrefixNode& node, size_t group) const {
  const bool is_open = geometry_.groups()[group].is_lossless() || node.begin == 0;
  return is_open ? PageForm::kOpen : PageForm::kSealed;
}

int64_t PrefixTree::page_bytes(const PrefixNode& node, size_t group) const {
  const LayerGroup& layers = geometry_.groups()[group];
  return form_of(node, group) == PageForm::kOpen ? layers.page_bytes() : layers.sealed_page_bytes();
}

/// Whether a query at `tokens` sees anything of the node.
bool PrefixTree::is_needed(const PrefixNode& node, size_t group, int64_t tokens) const {
  const LayerGroup& layers = geometry_.groups()[group];
  if (node.begin >= tokens) return false;
  const int64_t end = std::min(node.end(), tokens);
  return end > layers.first_needed(tokens) || node.begin < layers.sink_tokens;
}

void PrefixTree::set_page(PrefixNode& node, size_t group, PageRef page, int64_t end) {
  PrefixPage& mine = node.pages[group];
  if (!mine.page) {
    bytes_.fetch_add(page_bytes(node, group), std::memory_order_relaxed);
  }
  mine.page = std::move(page);
  mine.end = end;
}

void PrefixTree::drop_page(PrefixNode& node, size_t group) {
  PrefixPage& mine = node.pages[group];
  if (!mine.page) return;
  bytes_.fetch_sub(page_bytes(node, group), std::memory_order_relaxed);
  evicted_pages_.fetch_add(1, std::memory_order_relaxed);
  mine.page.reset();
  mine.end = 0;
}

/// Makes `block`, which begins with all tokens of this leaf, the leaf's tokens.
void PrefixTree::grow(PrefixNode& leaf, Tokens block) {
  detach(leaf);
  leaf.tokens.assign(block.begin(), block.end());
  attach(leaf);
}

void PrefixTree::attach(PrefixNode& node) {
  node.hash = chain(*node.parent, node.tokens);
  node.parent->children.emplace(node.hash, &node);
}

void PrefixTree::detach(PrefixNode& node) {
  const auto [first, last] = node.parent->children.equal_range(node.hash);
  const auto found =
      std::find_if(first, last, [&](const auto& child) { return child.second == &node; });
  QUIRE_CHECK(found != last, "a node is among its parent's children");
  node.parent->children.erase(found);
}

}  // namespace quire::kv
