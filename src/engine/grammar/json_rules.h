// json_rules.h: the words of JSON as rules: strings, numbers, blanks, and any value at all.
//
// Everything that they allow is JSON which reads back without loss: strings are well-formed UTF-8
// with paired surrogates, integers fit 64 bits, numbers have at most 18 digits before the point, 17
// after it and two in the exponent. Blanks are bounded, so that no answer loses itself in them: one
// space, or one line feed and at most 40 of indentation.
// Belongs to one builder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/program.h"

namespace quire::engine::grammar {

/// What a vocabulary can spell.
struct Alphabet {
  bool unicode = true;    // all bytes of UTF-8; else only ASCII
  bool line_feed = true;  // as itself, outside of strings
};

/// A bound of a range, as a decimal: digits of the whole part and of the fraction.
struct Decimal {
  bool negative = false;
  std::string whole;     // without leading zeros; "0" for none
  std::string fraction;  // without trailing zeros
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  friend bool operator==(const Decimal&, const Decimal&) = default;
};
/// Nothing for what no decimal of at most 15 digits before the point and 15 after it is.
std::optional<Decimal> decimal_of(double value);

struct NumberRange {
  enum class Kind : uint8_t { kNumber, kInteger };
  Kind kind = Kind::kNumber;
  std::optional<Decimal> least;
  std::optional<Decimal> most;
  bool above_least = false;  // `least` itself is out
  bool below_most = false;
};

class JsonRules {
 public:
  JsonRules(ProgramBuilder& builder, const Alphabet& alphabet);

  ProgramBuilder& builder() { return builder_; }
  const Alphabet& alphabet() const { return alphabet_; }

  /// Nothing, one space, or a line feed and indentation.
  NodeId blanks(NodeId next);
  /// Nothing or one space.
  NodeId one_blank(NodeId next);
  /// With its quotes. Lengths are in characters.
  NodeId string(int32_t least, int32_t most, NodeId next);
  /// A string as a key beside others: spelled without escapes, and none of `taken`.
  NodeId other_key(const std::vector<std::string>& taken, NodeId next);
  NodeId number(NodeId next) { return builder_.call(number_, next); }
  NodeId integer(NodeId next) { return builder_.call(integer_, next); }
  /// Nothing if no number is in the range.
  std::optional<NodeId> number_in(const NumberRange& range, NodeId next);
  NodeId value(NodeId next) { return builder_.call(value_, next); }
  NodeId any_object(NodeId next) { return builder_.call(object_, next); }
  NodeId any_array(NodeId next) { return builder_.call(array_, next); }
  /// A character of UTF-8 from one to another.
  NodeId characters(uint32_t first, uint32_t last, NodeId next);
  /// Text up to and with `closer`, which comes nowhere before.
  NodeId text_until(std::string_view closer, NodeId next);

  RuleId value_rule() const { return value_; }
  /// `text` as a JSON string, with escapes for what the vocabulary cannot spell.
  std::string quoted(std::string_view text) const;
  /// The same for every string in a JSON text.
  std::string spelled(std::string_view json) const;

 private:
  NodeId escape(NodeId next);
  void define_numbers();
  void define_values();

  ProgramBuilder& builder_;
  Alphabet alphabet_;
  RuleId digit_, blank_, character_, key_character_, number_, integer_, value_, object_, array_;
};

/// '[' items ']' or '{' members '}': `first` and `more` (with its comma) match one element each.
struct ListShape {
  char open = '[';
  char close = ']';
  int32_t least = 0;
  int32_t most = kUnbounded;
};
NodeId list(JsonRules& rules, const ListShape& shape, RuleId element, NodeId next);

}  // namespace quire::engine::grammar
