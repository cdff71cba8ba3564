#include "context/tokenizer/added_tokens.h"

#include <algorithm>

#include "context/tokenizer/white_space.h"

namespace quire::context {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::ranges::stable_sort(tokens_, {}, &AddedToken::content);
  const auto same = [](const AddedToken& a, const AddedToken& b) { return a.content == b.content; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());
  build_trie();
}

/// Breadth first: each node stands for a prefix, which is that of a contiguous run of the sorted
/// tokens.
void AddedTokens::build_trie() {
  struct Pending {
    uint32_t node;
    size_t first, last;  // tokens [first, last) share this prefix
    size_t depth;        // its length
  };
  nodes_.assign(1, Node{});
  std::vector<Pending> queue{{0, 0, tokens_.size(), 0}};
  for (size_t done = 0; done < queue.size(); ++done) {
    auto [node, first, last, depth] = queue[done];
    if (first < last && tokens_[first].content.size() == depth) {
      nodes_[node].token = static_cast<int32_t>(first++);
    }
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (first < last) {
      const char byte = tokens_[first].content[depth];
      size_t end = first + 1;
      while (end < last && tokens_[end].content[depth] == byte) ++end;
      const auto child = static_cast<uint32_t>(nodes_.size());
      edges_.push_back({static_cast<uint8_t>(byte), child});
      ++nodes_[node].num_edges;
      nodes_.push_back({});
      queue.push_back({child, first, end, depth + 1});
      first = end;
    }
  }
  roots_.assign(256, 0);
  for (uint32_t i = 0; i < nodes_[0].num_edges; ++i) roots_[edges_[i].byte] = edges_[i].node;
}

uint32_t AddedTokens::step(uint32_t node, uint8_t byte) const {
  const auto begin = edges_.begin() + nodes_[node].first_edge;
  const auto end = begin + nodes_[node].num_edges;
  const auto edge =
      std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? edge->node : 0;
}

class AddedTokens::Splitter {
 public:
  Splitter(const AddedTokens& owner, std::string_view text, std::span<const ByteRange> inert)
      : owner_(owner), text_(text), inert_(inert) {}

  std::vector<AddedSpan> run() {
    size_t at = 0;
    while (at < text_.size()) {
      const uint32_t node = owner_.roots_[static_cast<uint8_t>(text_[at])];
      const size_t end = node == 0 ? 0 : match_at(at, node);
      at = end > at ? end : at + 1;
    }
    add_text(text_.size());
    return std::move(spans_);
  }

 private:
  /// Takes or passes over the longest token at `at` that may exist there. Returns its end, or 0.
  size_t match_at(size_t at, uint32_t node) {
    candidates_.clear();
    for (size_t next = at + 1; node != 0; ++next) {
      if (owner_.nodes_[node].token >= 0) candidates_.push_back(owner_.nodes_[node].token);
      if (next == text_.size()) break;
      node = owner_.step(node, static_cast<uint8_t>(text_[next]));
    }
    while (!candidates_.empty()) {
      const AddedToken& token = owner_.tokens_[static_cast<size_t>(candidates_.back())];
      candidates_.pop_back();
      const ByteRange range{at, at + token.content.size()};
      switch (token.special ? place_of(range) : Place::kLive) {
        case Place::kAcross:
          continue;
        case Place::kInert:
          return range.end;
        case Place::kLive:
          take(token, range);
          return range.end;
      }
    }
    return 0;
  }

  enum class Place { kLive, kInert, kAcross };

  /// Matches come from left to right, so the ranges that end before one are done with.
  Place place_of(ByteRange range) {
    while (!inert_.empty() && inert_.front().end <= range.begin) inert_ = inert_.subspan(1);
    if (inert_.empty() || inert_.front().begin >= range.end) return Place::kLive;
    const ByteRange first = inert_.front();
    return first.begin <= range.begin && range.end <= first.end ? Place::kInert : Place::kAcross;
  }

  void take(const AddedToken& token, ByteRange range) {
    if (token.single_word && (ends_with_word(text_.substr(0, range.begin)) ||
                              starts_with_word(text_.substr(range.end)))) {
      return;
    }
    if (token.lstrip) {
      const size_t space = trailing_white_space(text_.substr(0, range.begin));
      range.begin = std::max(range.begin - space, done_);
    }
    if (token.rstrip) range.end += leading_white_space(text_.substr(range.end));
    add_text(range.begin);
    range.begin = std::max(range.begin, done_);  // an rstrip before may have taken this far
    spans_.push_back({range, token.id});
    done_ = std::max(done_, range.end);
  }

  void add_text(size_t end) {
    if (done_ < end) spans_.push_back({{done_, end}, -1});
    done_ = std::max(done_, end);
  }

  const AddedTokens& owner_;
  std::string_view text_;
  std::span<const ByteRange> inert_;
  std::vector<int32_t> candidates_;
  std::vector<AddedSpan> spans_;
  size_t done_ = 0;  // all before is in spans_
};

std::vector<AddedSpan> AddedTokens::split(std::string_view text,
                                          std::span<const ByteRange> inert) const {
  if (text.empty()) return {};
  if (tokens_.empty()) return {{{0, text.size()}, -1}};
  return Splitter(*this, text, inert).run();
}

}  // namespace quire::context
