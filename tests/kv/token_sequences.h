// token_sequences.h: sequences of tokens on a KvStore, for tests of the prefix tree.
//
// As law 1 has it, a row is a function of the tokens up to it: here, a hash of them. So what a
// sequence must hold is known from its tokens alone, whoever computed it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/kv_store.h"
#include "kv/row_io.h"

namespace quire::kv {

using Tokens = std::vector<TokenId>;

/// `count` tokens that start at `first` and go up.
inline Tokens counting(int64_t count, int32_t first = 0) {
  Tokens tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back({first + static_cast<int32_t>(i)});
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Tokens first_of(const Tokens& tokens, int64_t count) {
  return {tokens.begin(), tokens.begin() + count};
}

/// The row of the last of these tokens.
inline Row row_of(std::span<const TokenId> prefix, size_t group, int64_t bytes) {
  uint64_t state = hash64(std::as_bytes(prefix), group);
  Row row;
  for (int64_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    row.push_back(static_cast<std::byte>(state >> 56));
  }
  return row;
}

/// A sequence with the tokens it stands for.
struct TokenSequence {
  KvSequence cached;
  Tokens tokens;
};

/// Reserves, writes and commits; false, and nothing changed, if there is no room.
inline bool append(KvStore& store, TokenSequence& seq, const Tokens& more) {
  const auto first = static_cast<int64_t>(seq.tokens.size());
  const auto count = static_cast<int64_t>(more.size());
  if (!store.reserve(seq.cached, count).ok()) return false;
  seq.tokens.insert(seq.tokens.end(), more.begin(), more.end());
  for (size_t g = 0; g < store.geometry().groups().size(); ++g) {
    const auto view = store.view(seq.cached, static_cast<int32_t>(g));
    const int64_t bytes = store.geometry().groups()[g].bytes_per_token();
    for (int64_t p = first; p < first + count; ++p) {
      const auto prefix = std::span(seq.tokens).first(static_cast<size_t>(p + 1));
      write_row(view.shape, *find_span(view, p), p, row_of(prefix, g, bytes));
    }
  }
  store.commit(seq.cached, count);
  return true;
}

/// The first position that a query at the end sees and whose row is not that of the tokens.
inline std::optional<std::string> find_wrong_row(const KvStore& store, const TokenSequence& seq) {
  const auto length = static_cast<int64_t>(seq.tokens.size());
  if (store.length(seq.cached) != length) return "another length";
  for (size_t g = 0; g < store.geometry().groups().size(); ++g) {
    const LayerGroup& group = store.geometry().groups()[g];
    const auto view = store.view(seq.cached, static_cast<int32_t>(g));
    for (int64_t p = 0; p < length; ++p) {
      if (p < group.first_needed(length) && p >= group.sink_tokens) continue;
      const auto prefix = std::span(seq.tokens).first(static_cast<size_t>(p + 1));
      const auto* span = find_span(view, p);
      if (span == nullptr ||
          !holds_row(view.shape, *span, p, row_of(prefix, g, group.bytes_per_token()))) {
        return "group " + std::to_string(g) + ", position " + std::to_string(p);
      }
    }
  }
  return std::nullopt;
}

/// The longest known prefix as a sequence.
inline TokenSequence resume(KvStore& store, const IdentityKey& key, const Tokens& tokens) {
  const PrefixMatch match = store.match(key, tokens);
  return {store.adopt(match), first_of(tokens, match.tokens)};
}

/// Computes what is not known of `tokens`, publishes all, returns how many were known.
inline int64_t run(KvStore& store, const IdentityKey& key, const Tokens& tokens) {
  TokenSequence seq = resume(store, key, tokens);
  const auto known = static_cast<int64_t>(seq.tokens.size());
  if (!append(store, seq, {tokens.begin() + known, tokens.end()})) return -1;
  store.publish(key, seq.cached, seq.tokens, PublishTail::kShare);
  return known;
}

}  // namespace quire::kv
