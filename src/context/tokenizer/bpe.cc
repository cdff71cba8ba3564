#include "context/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

/// Up to so many symbols, scanning for the best merge beats a tree.
constexpr size_t kFewSymbols = 32;
constexpr size_t kCachedWords = 4096;  // 200 kB, which stays in the second-level cache
constexpr size_t kWordsBeforeCaching = 512;
constexpr size_t kNeighbourBits = size_t{1} << 22;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

/// An ill-formed byte must not look like the character of the same number.
uint32_t character_code(const Utf8Char& c) {
  return c.valid ? c.code_point : 0x110000 + c.code_point;
}

size_t neighbour_bit(uint32_t left, uint32_t right) {
  return hash_number(uint64_t{left} << 32 | right) % kNeighbourBits;
}

Error bad_merge(size_t index, std::string_view left, std::string_view right) {
  return Error{
      ErrorCode::kBadFile,
      fmt::format("Merge {} of the tokenizer joins {} and {}, but these and what they make "
                  "are not all in its vocabulary.",
                  index, formats::printable(left), formats::printable(right))};
}

}  // namespace

Result<BpeModel> BpeModel::from_merges(
    const Vocabulary& vocabulary, const BpeOptions& options,
    std::span<const std::pair<std::string_view, std::string_view>> merges) {
  BpeModel model(vocabulary, options);
  // Between a third and two thirds full: Gemma 3, with 514,906 merges, takes 16 MB.
  model.merges_.resize(std::bit_ceil(merges.size() + merges.size() / 2 + 2));
  bool merges_bytes = false;
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left_text, right_text] = merges[rank];
    const int32_t left = vocabulary.find_spelled(left_text);
    const int32_t right = vocabulary.find_spelled(right_text);
    joined.assign(left_text);
    joined += right_text;
    const int32_t result = vocabulary.find_spelled(joined);
    if (left < 0 || right < 0 || result < 0) return bad_merge(rank, left_text, right_text);
    merges_bytes |=
        vocabulary.kind(left) == TokenKind::kByte || vocabulary.kind(right) == TokenKind::kByte;
    // Text must never turn into a control token, whatever the list of merges says.
    if (is_special(vocabulary.kind(result))) continue;
    model.insert_merge(left, right, {static_cast<uint32_t>(rank), result});
  }
  if (!merges_bytes) model.note_neighbours();
  return model;
}

Result<BpeModel> BpeModel::from_scores(const Vocabulary& vocabulary, const BpeOptions& options,
                                       std::span<const float> scores) {
  QUIRE_CHECK_EQ(scores.size(), static_cast<size_t>(vocabulary.size()));
  BpeModel model(vocabulary, options);
  for (size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id])) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("The score of token {} is no number (tokenizer.ggml.scores).", id)};
    }
  }
  std::vector<float> ranked(scores.begin(), scores.end());
  std::ranges::sort(ranked, std::greater<>());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  model.score_ranks_.reserve(scores.size());
  for (const float score : scores) {
    const auto at = std::ranges::lower_bound(ranked, score, std::greater<>());
    model.score_ranks_.push_back(static_cast<uint32_t>(at - ranked.begin()));
  }
  model.note_neighbours();
  return model;
}

void BpeModel::insert_merge(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  size_t slot = hash_number(pair) & mask;
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) slot = (slot + 1) & mask;
  merges_[slot] = {pair, merge.rank,
                   merge.id};  // of equal pairs the last counts, as in Hugging Face
}

/// Prepares cutting words where no token spans two characters. Not where unknown characters could
/// meet across the cut (to fuse, or by vanishing), nor where whole words are looked up.
void BpeModel::note_neighbours() {
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    longest_text_ = std::max(longest_text_, vocabulary_->model_text(id).size());
  }
  const bool every_character_has_tokens =
      options_.byte_fallback && vocabulary_->has_all_byte_tokens();
  const bool unknowns_stay_apart = options_.unknown >= 0 && !options_.fuse_unknown;
  if (options_.spelling == Spelling::kByteLevel || options_.ignore_merges ||
      (!every_character_has_tokens && !unknowns_stay_apart)) {
    return;
  }
  neighbours_.assign(kNeighbourBits / 64, 0);
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    std::string_view text = vocabulary_->model_text(id);
    uint32_t previous = 0;
    for (bool first = true; !text.empty(); first = false) {
      const Utf8Char c = utf8_next(text);
      const uint32_t code = character_code(c);
      if (!first) {
        const size_t bit = neighbour_bit(previous, code);
        neighbours_[bit / 64] |= uint64_t{1} << bit % 64;
      }
      previous = code;
      text.remove_prefix(static_cast<size_t>(c.bytes));
    }
  }
}

bool BpeModel::may_be_neighbours(uint32_t left, uint32_t right) const {
  const size_t bit = neighbour_bit(left, right);
  return (neighbours_[bit / 64] >> bit % 64 & 1) != 0;
}

void BpeModel::encode(std::string_view word, uint32_t offset, BpeScratch& scratch,
                      std::vector<PlacedToken>& out) const {
  if (options_.ignore_merges) {
    const int32_t whole = vocabulary_->find_mergeable(word);
    if (whole >= 0) {
      out.push_back({TokenId{whole}, offset});
      return;
    }
  }
  if (neighbours_.empty()) return encode_part(word, offset, scratch, out);
  size_t begin = 0;
  uint32_t previous = 0;
  for (size_t at = 0; at < word.size();) {
    const Utf8Char c = utf8_next(word.substr(at));
    const uint32_t code = character_code(c);
    if (at > begin && !may_be_neighbours(previous, code)) {
      encode_part(word.substr(begin, at - begin), offset + static_cast<uint32_t>(begin), scratch,
                  out);
      begin = at;
    }
    previous = code;
    at += static_cast<size_t>(c.bytes);
  }
  encode_part(word.substr(begin), offset + static_cast<uint32_t>(begin), scratch, out);
}

void BpeModel::encode_part(std::string_view word, uint32_t offset, BpeScratch& scratch,
                           std::vector<PlacedToken>& out) const {
  using CachedWord = BpeScratch::CachedWord;
  if (word.empty() || word.size() > CachedWord::kMaxBytes ||
      ++scratch.num_words_ < kWordsBeforeCaching) {
    return merge_part(word, offset, scratch, out);
  }
  if (scratch.cache_.empty()) scratch.cache_.resize(kCachedWords);
  CachedWord& cached = scratch.cache_[hash_text(word) % kCachedWords];
  if (std::string_view(cached.text, cached.bytes) == word) {
    for (size_t i = 0; i < cached.num_tokens; ++i) {
      out.push_back({TokenId{cached.ids[i]}, offset + cached.begins[i]});
    }
    return;
  }
  const size_t first = out.size();
  merge_part(word, offset, scratch, out);
  const size_t num_tokens = out.size() - first;
  if (num_tokens > CachedWord::kMaxTokens) return;
  word.copy(cached.text, word.size());
  cached.bytes = static_cast<uint8_t>(word.size());
  cached.num_tokens = static_cast<uint8_t>(num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) {
    cached.ids[i] = out[first + i].id.value;
    cached.begins[i] = static_cast<uint8_t>(out[first + i].begin - offset);
  }
}

void BpeModel::merge_part(std::string_view word, uint32_t offset, BpeScratch& scratch,
                          std::vector<PlacedToken>& out) const {
  std::vector<Symbol>& symbols = scratch.symbols_;
  symbols.clear();
  if (options_.spelling == Spelling::kByteLevel) {
    add_bytes(word, symbols);
  } else if (score_ranks_.empty()) {
    add_characters(word, symbols);
  } else {
    add_scored_characters(word, symbols);
  }
  if (symbols.size() <= kFewSymbols) {
    merge_few(word, symbols);
  } else {
    merge_many(word, scratch);
  }
  const size_t first = out.size();
  for (const Symbol& symbol : symbols) {
    if (symbol.length == 0) continue;
    if (symbol.id >= 0) {
      out.push_back({TokenId{symbol.id}, offset + symbol.begin});
    } else {
      emit_unknown(word.substr(symbol.begin, symbol.length), offset + symbol.begin, first, out);
    }
  }
}

void BpeModel::add_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  for (uint32_t i = 0; i < word.size(); ++i) {
    int32_t id = vocabulary_->byte_token(static_cast<uint8_t>(word[i]));
    if (id < 0) id = options_.unknown;
    if (id >= 0) symbols.push_back({id, i, 1, 0, 0});
  }
}

/// Hugging Face's rules, model.rs of its BPE: the character, else its bytes, else unknown.
void BpeModel::add_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  bool after_unknown = false;
  for (uint32_t at = 0; at < word.size();) {
    const auto length = static_cast<uint32_t>(utf8_next(word.substr(at)).bytes);
    const std::string_view character = word.substr(at, length);
    const int32_t id = vocabulary_->find_mergeable(character);
    if (id >= 0) {
      symbols.push_back({id, at, length, 0, 0});
      after_unknown = false;
    } else if (add_fallback(character, at, symbols)) {
      after_unknown = false;
    } else if (options_.unknown >= 0) {
      if (after_unknown && options_.fuse_unknown) {
        symbols.back().length += length;
      } else {
        symbols.push_back({options_.unknown, at, length, 0, 0});
      }
      after_unknown = true;
    }
    at += length;
  }
}

bool BpeModel::add_fallback(std::string_view character, uint32_t begin,
                            std::vector<Symbol>& symbols) const {
  if (!options_.byte_fallback) return false;
  const size_t size = symbols.size();
  for (uint32_t i = 0; i < character.size(); ++i) {
    const int32_t id = vocabulary_->byte_token(static_cast<uint8_t>(character[i]));
    if (id < 0) {
      symbols.resize(size);
      return false;
    }
    symbols.push_back({id, begin + i, 1, 0, 0});
  }
  return true;
}

/// With scores a character without a token may still be part of a longer one.
void BpeModel::add_scored_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  for (uint32_t at = 0; at < word.size();) {
    const auto length = static_cast<uint32_t>(utf8_next(word.substr(at)).bytes);
    symbols.push_back({vocabulary_->find_mergeable(word.substr(at, length)), at, length, 0, 0});
    at += length;
  }
}

/// `first` is where the tokens of this word begin in `out`.
void BpeModel::emit_unknown(std::string_view text, uint32_t begin, size_t first,
                            std::vector<PlacedToken>& out) const {
  bool has_bytes = options_.byte_fallback;
  for (const char byte : text) {
    has_bytes = has_bytes && vocabulary_->byte_token(static_cast<uint8_t>(byte)) >= 0;
  }
  if (has_bytes) {
    for (uint32_t i = 0; i < text.size(); ++i) {
      out.push_back({TokenId{vocabulary_->byte_token(static_cast<uint8_t>(text[i]))}, begin + i});
    }
    return;
  }
  if (options_.unknown < 0) return;
  const TokenId unknown{options_.unknown};
  if (options_.fuse_unknown && out.size() > first && out.back().id == unknown) return;
  out.push_back({unknown, begin});
}

BpeModel::Merge BpeModel::find_merge(std::string_view word, const Symbol& left,
                                     const Symbol& right) const {
  if (!score_ranks_.empty()) {
    const size_t length = size_t{left.length} + right.length;
    if (length > longest_text_) return kNoMerge;
    const int32_t id = vocabulary_->find_mergeable(word.substr(left.begin, length));
    return id < 0 ? kNoMerge : Merge{score_ranks_[static_cast<size_t>(id)], id};
  }
  const uint64_t pair = pair_of(left.id, right.id);
  const size_t mask = merges_.size() - 1;
  for (size_t slot = hash_number(pair) & mask; merges_[slot].pair != kNoPair;
       slot = (slot + 1) & mask) {
    if (merges_[slot].pair == pair) return {merges_[slot].rank, merges_[slot].id};
  }
  return kNoMerge;
}

void BpeModel::merge_few(std::string_view word, std::vector<Symbol>& symbols) const {
  Merge merges[kFewSymbols];  // merges[i] joins symbols i and i + 1
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    merges[i] = find_merge(word, symbols[i], symbols[i + 1]);
  }
  while (symbols.size() > 1) {
    const size_t last = symbols.size() - 1;
    size_t best = 0;
    for (size_t i = 1; i < last; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].id < 0) return;
    symbols[best].id = merges[best].id;
    symbols[best].length += symbols[best + 1].length;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges + best + 1, merges + last, merges + best);
    if (best > 0) merges[best - 1] = find_merge(word, symbols[best - 1], symbols[best]);
    if (best + 1 < last) merges[best] = find_merge(word, symbols[best], symbols[best + 1]);
  }
}

/// Notes what symbol `left` and the one after it would become.
void BpeModel::rank_pair(std::string_view word, size_t left, BpeScratch& scratch) const {
  const Symbol& symbol = scratch.symbols_[left];
  Merge merge = kNoMerge;
  if (symbol.next >= 0) {
    merge = find_merge(word, symbol, scratch.symbols_[static_cast<size_t>(symbol.next)]);
  }
  scratch.merged_[left] = merge.id;
  scratch.tree_.set(left, merge.rank);
}

void BpeModel::merge_at(std::string_view word, size_t at, BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols_;
  Symbol& left = symbols[at];
  const auto next = static_cast<size_t>(left.next);
  Symbol& right = symbols[next];
  left.id = scratch.merged_[at];
  left.length += right.length;
  left.next = right.next;
  right.length = 0;
  if (left.next >= 0) symbols[static_cast<size_t>(left.next)].prev = static_cast<int32_t>(at);
  scratch.tree_.set(next, MinTree::kNone);
  rank_pair(word, at, scratch);
  if (left.prev >= 0) rank_pair(word, static_cast<size_t>(left.prev), scratch);
}

void BpeModel::merge_many(std::string_view word, BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols_;
  const size_t num_symbols = symbols.size();
  scratch.ranks_.assign(num_symbols, MinTree::kNone);
  scratch.merged_.assign(num_symbols, -1);
  for (size_t i = 0; i < num_symbols; ++i) {
    symbols[i].prev = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < num_symbols ? static_cast<int32_t>(i) + 1 : -1;
    if (i + 1 == num_symbols) break;
    const Merge merge = find_merge(word, symbols[i], symbols[i + 1]);
    scratch.ranks_[i] = merge.rank;
    scratch.merged_[i] = merge.id;
  }
  scratch.tree_.assign(scratch.ranks_);
  while (scratch.tree_.smallest() != MinTree::kNone) {
    merge_at(word, scratch.tree_.where(), scratch);
  }
}

}  // namespace quire::context
