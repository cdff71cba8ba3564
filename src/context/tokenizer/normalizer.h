// normalizer.h: what a tokenizer rewrites in a text before it looks for tokens.
//
// The steps of tokenizer.json that are implemented, applied in order to each stretch between added
// tokens. Ill-formed bytes pass through every step unchanged. Immutable; any thread.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "context/tokenizer/aligned_text.h"
#include "context/tokenizer/pattern.h"
#include "context/tokenizer/regex.h"
#include "context/tokenizer/unicode_form.h"

namespace quire::context {

/// Writes `text` before a text that is not empty.
struct Prepend {
  std::string text;
};

struct Replace {
  Pattern pattern;
  std::string with;
};

/// Drops white space at the ends.
struct Strip {
  bool left = false;
  bool right = false;
};

using NormalizerStep = std::variant<UnicodeForm, Prepend, Replace, Strip>;

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  void apply(AlignedText& text, RegexScratch& scratch) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace quire::context
