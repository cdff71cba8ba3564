// pattern.h: what a step of tokenizer.json looks for: a literal string or a regular expression.
//
// Immutable; any thread, each with its own RegexScratch.
#pragma once
#include <string>
#include <string_view>
#include <variant>

#include "context/tokenizer/regex.h"

namespace quire::context {

class Pattern {
 public:
  /// Requires a literal that is not empty.
  static Pattern literal(std::string text) { return Pattern(std::move(text)); }
  static Pattern regex(Regex regex) { return Pattern(std::move(regex)); }

  /// Calls visit(ByteRange) for each match from left to right, without overlap. Ill-formed bytes
  /// match no regular expression; what stands left and right of them is searched separately.
  template <class Visit>
  void for_each_match(std::string_view text, RegexScratch& scratch, Visit visit) const {
    if (const auto* literal = std::get_if<std::string>(&pattern_)) {
      size_t at = text.find(*literal);
      for (; at != std::string_view::npos; at = text.find(*literal, at + literal->size())) {
        visit(ByteRange{at, at + literal->size()});
      }
      return;
    }
    ByteRange stretch = next_stretch(text, 0, scratch);
    for (; stretch.begin < text.size(); stretch = next_stretch(text, stretch.end, scratch)) {
      const std::string_view part = text.substr(stretch.begin, stretch.end - stretch.begin);
      size_t from = 0;
      while (const auto match = std::get<Regex>(pattern_).find(part, from, scratch)) {
        visit(ByteRange{stretch.begin + match->begin, stretch.begin + match->end});
        from = match->end;
        if (match->begin == match->end) {
          if (from == part.size()) break;
          from += character_bytes(part[from]);
        }
      }
    }
  }

  /// Whether both are written the same.
  friend bool operator==(const Pattern& a, const Pattern& b) {
    const auto* left = std::get_if<Regex>(&a.pattern_);
    const auto* right = std::get_if<Regex>(&b.pattern_);
    if (left != nullptr && right != nullptr) return left->source() == right->source();
    return left == right && std::get<std::string>(a.pattern_) == std::get<std::string>(b.pattern_);
  }

 private:
  explicit Pattern(std::string text) : pattern_(std::move(text)) {}
  explicit Pattern(Regex regex) : pattern_(std::move(regex)) {}

  /// The first well-formed stretch at or after `from`; begins at text.size() if there is none.
  static ByteRange next_stretch(std::string_view text, size_t from, const RegexScratch& scratch);
  /// Bytes of the well-formed character that starts with `lead`.
  static size_t character_bytes(char lead);

  std::variant<std::string, Regex> pattern_;
};

}  // namespace quire::context
