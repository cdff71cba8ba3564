// ids.h: distinct integer types for distinct things, so that a page cannot be passed as a token.
//
// Each id is its integer: same size, trivially copyable, ordered. `value` is the plain number.
#pragma once
#include <compare>
#include <cstdint>

namespace quire {

/// An entry of a model's vocabulary.
struct TokenId {
  int32_t value = -1;
  friend auto operator<=>(const TokenId&, const TokenId&) = default;
};

/// A page of one layer group's pool.
struct PageId {
  int32_t value = -1;
  friend auto operator<=>(const PageId&, const PageId&) = default;
};

/// A sequence of a KvStore; never reused within a store.
struct SeqId {
  int64_t value = -1;
  friend auto operator<=>(const SeqId&, const SeqId&) = default;
};

}  // namespace quire
