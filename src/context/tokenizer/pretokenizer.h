// pretokenizer.h: cuts a text into words, within which alone the model merges.
//
// The steps of tokenizer.json that are implemented, applied in order, each to every word of the one
// before by itself. Text that a step's pattern does not match forms words of its own. Ill-formed
// bytes likewise. Immutable; any thread.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "context/tokenizer/aligned_text.h"
#include "context/tokenizer/pattern.h"

namespace quire::context {

/// What becomes of a match.
enum class SplitBehavior {
  kRemoved,             // it is dropped
  kIsolated,            // it is a word
  kMergedWithPrevious,  // it ends the word before it
  kMergedWithNext,      // it starts the word after it
  kContiguous,          // it is a word together with the matches next to it
};

/// What the pattern finds: the matches, or what lies between them.
enum class SplitAt { kMatches, kGaps };

struct Split {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  SplitAt at = SplitAt::kMatches;
};

/// Writes a space before each word that does not start with one.
struct PrefixSpace {};

/// Spaces become `replacement`, which may also be written before a word, and starts words.
struct Metaspace {
  enum class PrependTo { kNone, kFirst, kEach };  // first: only at the very start of the input
  std::string replacement;
  PrependTo prepend_to = PrependTo::kEach;
  bool splits = true;
};

/// Every byte becomes GPT-2's character for it, and back: steps between the two see what
/// tokenizer.json's components after a ByteLevel see. Between them only Split may stand.
struct ToByteCharacters {};
struct FromByteCharacters {};

using PreTokenizerStep =
    std::variant<Split, PrefixSpace, Metaspace, ToByteCharacters, FromByteCharacters>;

/// A text and its words: ascending ranges without overlap.
struct Words {
  AlignedText text;
  std::vector<ByteRange> ranges;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  /// Words are never empty.
  Words apply(AlignedText text, RegexScratch& scratch) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace quire::context
