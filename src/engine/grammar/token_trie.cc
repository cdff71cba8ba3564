#include "engine/grammar/token_trie.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace quire::engine::grammar {
namespace {

/// Longer pieces are never allowed: nothing that a model says needs them.
constexpr size_t kMostPieceBytes = 256;

bool is_plain(uint32_t code_point) {
  return code_point >= 0x20 && code_point != '"' && code_point != '\\';
}

/// Characters of `text` if it is plain text, the beginning of a character at its end included;
/// else -1.
int32_t plain_chars(std::string_view text, bool unicode) {
  int32_t chars = 0;
  const size_t tail = utf8_incomplete_tail(text);
  std::string_view rest = text.substr(0, text.size() - tail);
  while (!rest.empty()) {
    const Utf8Char next = utf8_next(rest);
    if (!next.valid || !is_plain(next.code_point)) return -1;
    if (!unicode && next.bytes > 1) return -1;
    rest.remove_prefix(static_cast<size_t>(next.bytes));
    ++chars;
  }
  if (tail > 0 && !unicode) return -1;
  return chars + (tail > 0 ? 1 : 0);
}

bool spells_all(const ByteSet& spelled, int first, int last) {
  return ByteSet::range(first, last).without(spelled).empty();
}

}  // namespace

bool TokenSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t word) { return word == 0; });
}

Result<TokenTrie> TokenTrie::create(const context::Tokenizer& tokenizer,
                                    std::span<const TokenId> ends) {
  TokenTrie trie;
  trie.vocab_ = tokenizer.vocab_size();
  std::vector<Entry> entries;
  for (int32_t i = 0; i < trie.vocab_; ++i) {
    const TokenId id{i};
    const context::TokenKind kind = tokenizer.kind(id);
    const bool is_text = kind == context::TokenKind::kNormal || kind == context::TokenKind::kByte ||
                         kind == context::TokenKind::kUserDefined;
    const std::string_view piece = tokenizer.piece(id);
    if (!is_text || piece.empty() || piece.size() > kMostPieceBytes) continue;
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) continue;
    if (piece.size() == 1) trie.spelled_.add(static_cast<uint8_t>(piece[0]));
    entries.push_back({piece, id});
  }
  if (!spells_all(trie.spelled_, 0x20, 0x7E)) {
    return Error{ErrorCode::kUnsupported,
                 "this model's vocabulary has no token for some characters of ASCII, so its "
                 "answers cannot be held to a format"};
  }
  trie.spells_unicode_ =
      spells_all(trie.spelled_, 0x80, 0xBF) && spells_all(trie.spelled_, 0xC2, 0xF4);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.piece != b.piece ? a.piece < b.piece : a.id < b.id;
  });
  trie.build(entries);
  return trie;
}

void TokenTrie::build(const std::vector<Entry>& entries) {
  std::vector<int32_t> path;  // nodes from the root's child down to the last piece
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].after = static_cast<int32_t>(nodes_.size());
      nodes_[path.back()].end = static_cast<int32_t>(tokens_.size());
    }
  };
  for (const Entry& entry : entries) {
    size_t shared = 0;
    while (shared < path.size() && shared < entry.piece.size() &&
           nodes_[path[shared]].byte == static_cast<uint8_t>(entry.piece[shared])) {
      ++shared;
    }
    close_to(shared);
    const auto first = static_cast<int32_t>(tokens_.size());
    for (size_t depth = shared; depth < entry.piece.size(); ++depth) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<uint8_t>(entry.piece[depth]),
                        .depth = static_cast<uint16_t>(depth),
                        .first_token = first,
                        .own_end = first});
    }
    tokens_.push_back(entry.id);
    nodes_[path.back()].own_end = first + 1;
    note_text(entry, path);
  }
  close_to(0);
}

/// What the piece says about the nodes on its path.
void TokenTrie::note_text(const Entry& entry, std::span<const int32_t> path) {
  for (size_t depth = 0; depth < path.size(); ++depth) {
    Node& node = nodes_[path[depth]];
    if (!node.is_text) continue;
    const int32_t chars = plain_chars(entry.piece.substr(depth), spells_unicode_);
    node.is_text = chars >= 0;
    node.most_chars = std::max(node.most_chars, chars);
  }
}

TokenSet TokenTrie::allowed(Automaton& automaton, Automaton::StateId state) const {
  TokenSet set(vocab_);
  std::vector<Automaton::StateId> states(kMostPieceBytes + 1);  // before the byte at each depth
  states[0] = state;
  const auto add = [&](int32_t first, int32_t end) {
    for (int32_t i = first; i < end; ++i) set.add(tokens_[i]);
  };
  for (int32_t i = 0; i < static_cast<int32_t>(nodes_.size());) {
    const Node& node = nodes_[i];
    const Automaton::StateId before = states[node.depth];
    if (node.is_text && node.most_chars <= automaton.text_budget(before)) {
      add(node.first_token, node.end);
      i = node.after;
      continue;
    }
    const Automaton::StateId next = automaton.step(before, node.byte);
    if (next == Automaton::kDead) {
      i = node.after;
      continue;
    }
    add(node.first_token, node.own_end);
    states[node.depth + 1] = next;
    ++i;
  }
  return set;
}

}  // namespace quire::engine::grammar
