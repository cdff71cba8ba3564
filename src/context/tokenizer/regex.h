// regex.h: the regular expressions of pre-tokenizers, with the meaning Hugging Face gives them.
//
// tokenizer.json spells them in Oniguruma's syntax; they are translated for PCRE2 (see
// regex_syntax.h), compiled to machine code where PCRE2 can, and matched without recursion. A match
// that backtracks beyond its budget ends the search: patterns come from model files, which may be
// hostile. A Regex is immutable, any thread; each thread needs its own RegexScratch.
#pragma once
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "context/tokenizer.h"

namespace quire::context {

/// Working memory for matching, for one thread at a time; any Regex may use it.
class RegexScratch {
 public:
  /// For matching in texts that are, or need not be, well-formed UTF-8.
  enum class Texts { kWellFormed, kAny };
  explicit RegexScratch(Texts texts);
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  Texts texts() const { return texts_; }

 private:
  friend class Regex;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Texts texts_;
};

class Regex {
 public:
  /// Refuses what it cannot translate faithfully, by name; `what` names the pattern's place.
  static Result<Regex> compile(std::string_view pattern, std::string_view what);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// What it was compiled from.
  std::string_view source() const;

  /// The first match at or after `from`. Requires well-formed UTF-8 and `from` at a character.
  /// Nothing when there is none, or once any match with this scratch has exceeded its budget.
  std::optional<ByteRange> find(std::string_view text, size_t from, RegexScratch& scratch) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::context
