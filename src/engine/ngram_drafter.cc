#include "engine/ngram_drafter.h"

#include <algorithm>

#include "base/hash.h"

namespace quire::engine {

void NgramDrafter::extend(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    tokens_.push_back(token);
    long_before_ = find(long_, kLong);
    short_before_ = find(short_, kShort);
    note(long_, kLong);
    note(short_, kShort);
  }
}

std::span<const TokenId> NgramDrafter::draft(int64_t most) const {
  const int64_t begin = long_before_ >= 0 ? long_before_ : short_before_;
  if (begin < 0 || most <= 0) return {};
  const auto size = static_cast<int64_t>(tokens_.size());
  return std::span(tokens_).subspan(static_cast<size_t>(begin),
                                    static_cast<size_t>(std::min(most, size - begin)));
}

uint64_t NgramDrafter::run_hash(int64_t end, int64_t length) const {
  const auto run =
      std::span(tokens_).subspan(static_cast<size_t>(end - length), static_cast<size_t>(length));
  return hash64(std::as_bytes(run), static_cast<uint64_t>(length));
}

void NgramDrafter::note(Index& index, int64_t length) {
  const auto end = static_cast<int64_t>(tokens_.size());
  if (end >= length) index[run_hash(end, length)] = end;
}

int64_t NgramDrafter::find(const Index& index, int64_t length) const {
  const auto end = static_cast<int64_t>(tokens_.size());
  if (end < length) return -1;
  const auto found = index.find(run_hash(end, length));
  if (found == index.end()) return -1;
  // Equal hashes may be of different tokens.
  const int64_t there = found->second;
  const auto newest = tokens_.end() - length;
  const bool equal = std::equal(newest, tokens_.end(), tokens_.begin() + (there - length));
  return equal ? there : -1;
}

}  // namespace quire::engine
