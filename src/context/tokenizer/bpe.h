// bpe.h: byte pair encoding: a word becomes tokens by merging neighbours, best merge first.
//
// Two ways to say which merge is best: a ranked list of merges (Hugging Face, GPT-2), or the score
// of the merged piece (SentencePiece). Ties go to the leftmost. Long words go through a tree
// of minima, so that time is O(n log n) for any input. Where no token spans two neighbouring
// characters, a word is cut there first: no merge could cross, so the result is the same and the
// work stays in the cache. Immutable after creation; any thread, each with its own BpeScratch.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "context/tokenizer/min_tree.h"
#include "context/tokenizer/vocabulary.h"

namespace quire::context {

struct BpeOptions {
  Spelling spelling = Spelling::kByteLevel;
  bool ignore_merges = false;  // a word that is a token as a whole is that token
  bool byte_fallback = false;  // a character without a token becomes its bytes' tokens
  bool fuse_unknown = false;   // neighbouring unknown characters become one token
  int32_t unknown = -1;        // -1: unknown characters vanish, as in Hugging Face
};

/// A token and where in the encoded text it begins.
struct PlacedToken {
  TokenId id;
  uint32_t begin = 0;
};

class BpeModel;

/// Working memory of one thread, reused from word to word.
class BpeScratch {
 private:
  friend class BpeModel;
  struct Symbol {
    int32_t id;       // -1: a character without a token
    uint32_t begin;   // in the word
    uint32_t length;  // bytes; 0 once merged into its left neighbour
    int32_t prev;
    int32_t next;
  };
  /// A short word and its tokens. Words repeat: most are found here and not merged again.
  struct CachedWord {
    static constexpr size_t kMaxBytes = 15;
    static constexpr size_t kMaxTokens = 6;
    char text[kMaxBytes];
    uint8_t bytes = 0;  // 0: an empty entry
    uint8_t num_tokens;
    uint8_t begins[kMaxTokens];
    int32_t ids[kMaxTokens];
  };
  std::vector<Symbol> symbols_;
  std::vector<uint32_t> ranks_;
  std::vector<int32_t> merged_;  // by left symbol: what it and its right neighbour become
  MinTree tree_;
  std::vector<CachedWord> cache_;  // by hash; made once so many words came that it pays
  size_t num_words_ = 0;
};

class BpeModel {
 public:
  /// `merges` in rank order, best first; their parts and results must be in the vocabulary.
  /// `vocabulary` must outlive the model and not move.
  static Result<BpeModel> from_merges(
      const Vocabulary& vocabulary, const BpeOptions& options,
      std::span<const std::pair<std::string_view, std::string_view>> merges);

  /// One score a token, the highest is merged first. Refuses NaN.
  static Result<BpeModel> from_scores(const Vocabulary& vocabulary, const BpeOptions& options,
                                      std::span<const float> scores);

  /// Appends the tokens of one word; `offset` is added to their begins.
  void encode(std::string_view word, uint32_t offset, BpeScratch& scratch,
              std::vector<PlacedToken>& out) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;  // -1: these do not merge
  };
  struct MergeSlot {
    uint64_t pair = kNoPair;
    uint32_t rank = 0;
    int32_t id = -1;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr Merge kNoMerge{~uint32_t{0}, -1};
  using Symbol = BpeScratch::Symbol;

  BpeModel(const Vocabulary& vocabulary, const BpeOptions& options)
      : vocabulary_(&vocabulary), options_(options) {}

  void insert_merge(int32_t left, int32_t right, Merge merge);
  void note_neighbours();
  bool may_be_neighbours(uint32_t left, uint32_t right) const;

  /// Like encode(), for a word or a part of one that is not looked up as a whole.
  void encode_part(std::string_view word, uint32_t offset, BpeScratch& scratch,
                   std::vector<PlacedToken>& out) const;
  void merge_part(std::string_view word, uint32_t offset, BpeScratch& scratch,
                  std::vector<PlacedToken>& out) const;
  void add_bytes(std::string_view word, std::vector<Symbol>& symbols) const;
  void add_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  bool add_fallback(std::string_view character, uint32_t begin, std::vector<Symbol>& symbols) const;
  void add_scored_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  void emit_unknown(std::string_view text, uint32_t begin, size_t first,
                    std::vector<PlacedToken>& out) const;

  Merge find_merge(std::string_view word, const Symbol& left, const Symbol& right) const;
  void merge_few(std::string_view word, std::vector<Symbol>& symbols) const;
  void merge_many(std::string_view word, BpeScratch& scratch) const;
  void merge_at(std::string_view word, size_t left, BpeScratch& scratch) const;
  void rank_pair(std::string_view word, size_t left, BpeScratch& scratch) const;

  const Vocabulary* vocabulary_;
  BpeOptions options_;
  std::vector<MergeSlot> merges_;      // open addressing by hash of the pair; empty with scores
  std::vector<uint32_t> score_ranks_;  // by id, 0 is the best score; empty with merges
  size_t longest_text_ = 0;            // bytes of the longest mergeable token
  // Bit set: two characters of this hash stand side by side in some token. Empty: never cut.
  std::vector<uint64_t> neighbours_;
};

}  // namespace quire::context
