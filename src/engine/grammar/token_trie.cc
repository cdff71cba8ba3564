#include "engine/grammar/token_trie.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace quire::engine::grammar {
namespace {

/// Longer pieces are never allowed: nothing that a model says needs them.
constexpr size_t kMostPieceBytes = 256;

/// U+2028 and U+2029 are no plain text, since a pattern's . does not match them.
bool is_plain(uint32_t code_point) {
  return code_point >= 0x20 && code_point != '"' && code_point != '\\' && code_point != 0x2028 &&
         code_point != 0x2029;
}

bool starts_character(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
}

uint16_t count_starts(std::string_view text) {
  return static_cast<uint16_t>(std::count_if(text.begin(), text.end(), starts_character));
}

/// For each byte, whether what stands from there on is plain text: whole characters, and perhaps
/// the beginning of one at the end.
std::vector<bool> plain_from(std::string_view text, bool unicode) {
  std::vector<bool> plain(text.size() + 1, false);
  const size_t tail = utf8_incomplete_tail(text);
  plain[text.size() - tail] = tail == 0 || unicode;
  std::vector<Utf8Char> characters;
  for (size_t at = 0; at < text.size() - tail;) {
    characters.push_back(utf8_next(text.substr(at)));
    at += static_cast<size_t>(characters.back().bytes);
  }
  size_t at = text.size() - tail;
  for (size_t i = characters.size(); i-- > 0;) {
    const Utf8Char& character = characters[i];
    const size_t after = at;
    at -= static_cast<size_t>(character.bytes);
    plain[at] = plain[after] && character.valid && is_plain(character.code_point) &&
                (unicode || character.bytes == 1);
  }
  return plain;
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
                        .starts_before = count_starts(entry.piece.substr(0, depth)),
                        .first_token = first,
                        .own_end = first});
    }
    tokens_.push_back(entry.id);
    starts_.push_back(count_starts(entry.piece));
    nodes_[path.back()].own_end = first + 1;
    note_text(entry, path);
  }
  close_to(0);
}

/// What the piece says about the nodes on its path.
void TokenTrie::note_text(const Entry& entry, std::span<const int32_t> path) {
  const std::vector<bool> plain = plain_from(entry.piece, spells_unicode_);
  const uint16_t starts = count_starts(entry.piece);
  for (size_t depth = 0; depth < path.size(); ++depth) {
    Node& node = nodes_[path[depth]];
    node.is_text = node.is_text && plain[depth];
    node.most_chars = std::max(node.most_chars, static_cast<uint16_t>(starts - node.starts_before));
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
    const int64_t budget = node.is_text ? automaton.text_budget(before) : 0;
    if (budget > 0) {
      const bool all = node.most_chars <= budget;
      for (int32_t token = node.first_token; token < node.end; ++token) {
        if (all || starts_[token] - node.starts_before <= budget) set.add(tokens_[token]);
      }
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
