// token_trie.h: which tokens of a vocabulary an automaton allows next.
//
// The pieces of all tokens that are text form a tree of bytes, in depth-first order. Walking it
// with the automaton visits only bytes that may come; where any text may come, a subtree that holds
// nothing else is taken as a whole. So a mask costs what the exceptions cost, not the vocabulary.
// Immutable once made: any number of threads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "context/tokenizer.h"
#include "engine/grammar/automaton.h"

namespace quire::engine::grammar {

/// One bit for each token id.
class TokenSet {
 public:
  explicit TokenSet(int32_t vocab) : words_((static_cast<size_t>(vocab) + 63) / 64) {}
  void add(TokenId id) { words_[id.value / 64] |= uint64_t{1} << id.value % 64; }
  bool contains(TokenId id) const { return (words_[id.value / 64] >> id.value % 64 & 1) != 0; }
  bool empty() const;
  /// Bits of tokens 64 i to 64 i + 63. // [vocab / 64, rounded up]
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

class TokenTrie {
 public:
  /// `ends` are no text. Copies the pieces. Refuses a vocabulary that cannot spell all of ASCII
  /// byte by byte, since then an answer may get stuck.
  static Result<TokenTrie> create(const context::Tokenizer& tokenizer,
                                  std::span<const TokenId> ends);

  int32_t vocab() const { return vocab_; }
  /// Whether every byte of UTF-8 is a token: else text beyond ASCII is not allowed at all.
  bool spells_unicode() const { return spells_unicode_; }
  /// Whether this byte is a token.
  bool spells(uint8_t byte) const { return spelled_.contains(byte); }

  /// The tokens whose bytes `automaton` can take in `state`.
  TokenSet allowed(Automaton& automaton, Automaton::StateId state) const;

 private:
  struct Entry {
    std::string_view piece;
    TokenId id;
  };
  /// A byte of one or more pieces; children follow at once, then siblings.
  struct Node {
    uint8_t byte = 0;
    bool is_text = true;         // from here on, all pieces are plain text: whole characters, or
                                 // the beginning of one at the end
    uint16_t depth = 0;          // bytes before this one
    uint16_t starts_before = 0;  // characters that start in them
    uint16_t most_chars = 0;     // that start here or below, on one path
    int32_t after = 0;           // the node after this one and its subtree
    int32_t first_token = 0;
    int32_t own_end = 0;  // of the tokens that end here: [first_token, own_end)
    int32_t end = 0;      // of all tokens below
  };
  void build(const std::vector<Entry>& entries);
  void note_text(const Entry& entry, std::span<const int32_t> path);

  int32_t vocab_ = 0;
  bool spells_unicode_ = false;
  ByteSet spelled_;
  std::vector<Node> nodes_;       // depth first
  std::vector<TokenId> tokens_;   // by their pieces
  std::vector<uint16_t> starts_;  // of each of tokens_: characters that start in its piece
};

}  // namespace quire::engine::grammar
