#include "engine/grammar/string_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace quire::engine::grammar {
namespace {

constexpr int32_t kMostGroups = 100;  // one inside the other
constexpr uint32_t kLastCharacter = 0x10FFFF;
constexpr int32_t kMostCount = 1'000'000'000;
constexpr int64_t kMostNestedCounts = 4096;

using Range = std::pair<uint32_t, uint32_t>;
using Ranges = std::vector<Range>;

/// Ascending and without overlap.
Ranges tidied(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges tidy;
  for (const Range& range : ranges) {
    if (!tidy.empty() && range.first <= tidy.back().second + 1) {
      tidy.back().second = std::max(tidy.back().second, range.second);
    } else {
      tidy.push_back(range);
    }
  }
  return tidy;
}

Ranges all_but(const Ranges& ranges) {
  Ranges rest;
  uint32_t from = 0;
  for (const auto& [first, last] : tidied(ranges)) {
    if (first > from) rest.push_back({from, first - 1});
    from = last + 1;
  }
  if (from <= kLastCharacter) rest.push_back({from, kLastCharacter});
  return rest;
}

/// Shorthands differ beyond ASCII between those who read patterns: what they agree on.
Ranges all_but_in_ascii(const Ranges& ranges) {
  Ranges rest = all_but(ranges);
  std::erase_if(rest, [](const Range& range) { return range.first > 0x7F; });
  if (!rest.empty()) rest.back().second = std::min<uint32_t>(rest.back().second, 0x7F);
  return rest;
}

const Ranges kDigit = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{'\t', '\r'}, {' ', ' '}};
const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/// A parsed expression.
struct Expression {
  enum class Kind : uint8_t { kClass, kSequence, kAlternatives, kRepeat };
  Kind kind = Kind::kSequence;
  Ranges ranges;                  // kClass
  std::vector<Expression> parts;  // the others
  int32_t least = 0;
  int32_t most = 0;
  bool may_be_empty = true;
  int64_t counts = 1;  // of bounded repetitions, one inside the other, multiplied
};

Expression class_of(Ranges ranges) {
  return {
      .kind = Expression::Kind::kClass, .ranges = tidied(std::move(ranges)), .may_be_empty = false};
}

Expression repeated(Expression body, int32_t least, int32_t most) {
  Expression repeat{.kind = Expression::Kind::kRepeat, .least = least, .most = most};
  repeat.may_be_empty = least == 0 || body.may_be_empty;
  repeat.counts = body.counts * (most == kUnbounded ? 1 : std::max(most, 1));
  repeat.parts.push_back(std::move(body));
  return repeat;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : rest_(pattern) {}

  Result<Expression> parse() {
    QUIRE_TRY(Expression whole, alternatives(0));
    if (!rest_.empty()) return fault("has a ) without its (");
    return whole;
  }

 private:
  static Error fault(std::string what) { return {ErrorCode::kUsage, std::move(what)}; }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  Result<uint32_t> take_character() {
    const Utf8Char next = utf8_next(rest_);
    if (!next.valid) return fault("is not UTF-8");
    rest_.remove_prefix(static_cast<size_t>(next.bytes));
    return next.code_point;
  }

  Result<Expression> alternatives(int32_t depth) {
    if (depth > kMostGroups) {
      return fault(fmt::format("nests groups more than {} deep", kMostGroups));
    }
    Expression all{.kind = Expression::Kind::kAlternatives, .may_be_empty = false};
    do {
      QUIRE_TRY(Expression one, sequence(depth));
      all.may_be_empty |= one.may_be_empty;
      all.counts = std::max(all.counts, one.counts);
      all.parts.push_back(std::move(one));
    } while (take("|"));
    return all;
  }

  Result<Expression> sequence(int32_t depth) {
    Expression all;
    const bool at_start = take("^");
    if (at_start && depth > 0) return fault("has a ^ inside a group");
    if (!at_start && depth == 0) all.parts.push_back(any_text());
    bool at_end = false;
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      if (take("$")) {
        at_end = true;
        break;
      }
      QUIRE_TRY(Expression part, repetition(depth));
      all.may_be_empty &= part.may_be_empty;
      all.counts = std::max(all.counts, part.counts);
      all.parts.push_back(std::move(part));
    }
    if (at_end && (depth > 0 || (!rest_.empty() && rest_[0] != '|'))) {
      return fault("has a $ that is not at its end");
    }
    if (!at_end && depth == 0) all.parts.push_back(any_text());
    return all;
  }

  static Expression any_text() { return repeated(class_of({{0, kLastCharacter}}), 0, kUnbounded); }

  Result<Expression> repetition(int32_t depth) {
    QUIRE_TRY(Expression body, atom(depth));
    while (!rest_.empty()) {
      int32_t least = 0;
      int32_t most = kUnbounded;
      if (take("+")) {
        least = 1;
      } else if (take("?")) {
        most = 1;
      } else if (rest_[0] == '{') {
        QUIRE_TRY_VOID(counts(least, most));
      } else if (!take("*")) {
        break;
      }
      (void)take("?");  // lazy: matches the same strings
      if (body.may_be_empty) {
        return fault("repeats something that can be empty");
      }
      const bool nests = body.counts > 1 && most != kUnbounded;
      body = repeated(std::move(body), least, most);
      if (nests && body.counts > kMostNestedCounts) {
        return fault("counts repetitions of repetitions beyond 4,096");
      }
      if (body.may_be_empty) break;
    }
    const bool again =
        !rest_.empty() && std::string_view("*+?{").find(rest_[0]) != std::string_view::npos;
    if (again) return fault("repeats something that can be empty");
    return body;
  }

  Result<void> counts(int32_t& least, int32_t& most) {
    rest_.remove_prefix(1);
    QUIRE_TRY(least, number());
    most = least;
    if (take(",")) {
      most = kUnbounded;
      if (!rest_.starts_with('}')) {
        QUIRE_TRY(most, number());
      }
    }
    if (!take("}")) return fault("has a { without its }");
    if (most < least) return fault("has a repetition with less at most than at least");
    return {};
  }

  Result<int32_t> number() {
    int64_t value = 0;
    size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      value = std::min<int64_t>(value * 10 + (rest_[digits] - '0'), kMostCount);
    }
    if (digits == 0) return fault("has a { that counts nothing; write \\{ for the character");
    rest_.remove_prefix(digits);
    return static_cast<int32_t>(value);
  }

  Result<Expression> atom(int32_t depth) {
    if (take("(")) return group(depth);
    if (take("[")) return bracket();
    if (take(".")) return class_of(all_but(kLineEnds));
    if (take("\\")) {
      QUIRE_TRY(Ranges ranges, escape());
      return class_of(std::move(ranges));
    }
    if (rest_[0] == '^') return fault("has a ^ that is not at its start");
    if (std::string_view("*+?{").find(rest_[0]) != std::string_view::npos) {
      return fault(fmt::format("has a {} with nothing to repeat", rest_[0]));
    }
    QUIRE_TRY(const uint32_t character, take_character());
    return class_of({{character, character}});
  }

  Result<Expression> group(int32_t depth) {
    if (take("?")) {
      if (take("<") && !rest_.starts_with("=") && !rest_.starts_with("!")) {
        const size_t close = rest_.find('>');
        if (close == std::string_view::npos) return fault("has a group whose name never ends");
        rest_.remove_prefix(close + 1);
      } else if (!take(":")) {
        return fault("looks around, which a grammar cannot follow");
      }
    }
    QUIRE_TRY(Expression inside, alternatives(depth + 1));
    if (!take(")")) return fault("has a ( without its )");
    return inside;
  }

  /// What follows a backslash.
  Result<Ranges> escape() {
    if (rest_.empty()) return fault("ends with a backslash");
    const char kind = rest_[0];
    if (kind >= '1' && kind <= '9') return fault("refers back to a group");
    if (kind == 'b' || kind == 'B') return fault("tests for word borders");
    if (kind == 'p' || kind == 'P') return fault("names a property of Unicode");
    if (kind == 'k' || kind == 'c') return fault(fmt::format("has the unknown escape \\{}", kind));
    QUIRE_TRY(const uint32_t character, take_character());
    switch (character) {
      case 'd':
        return kDigit;
      case 'D':
        return all_but_in_ascii(kDigit);
      case 'w':
        return kWord;
      case 'W':
        return all_but_in_ascii(kWord);
      case 's':
        return kSpace;
      case 'S':
        return all_but_in_ascii(kSpace);
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      default:
        break;
    }
    constexpr auto kControls = std::to_array<std::pair<char, char>>(
        {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}, {'0', '\0'}});
    for (const auto& [name, control] : kControls) {
      if (character == static_cast<uint32_t>(name)) {
        const auto code = static_cast<uint32_t>(control);
        return Ranges{{code, code}};
      }
    }
    const bool is_letter =
        (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
    if (is_letter) {
      return fault(fmt::format("has the unknown escape \\{}", static_cast<char>(character)));
    }
    return Ranges{{character, character}};
  }

  Result<Ranges> hexadecimal(size_t digits) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i) {
      const size_t digit = i < rest_.size()
                               ? std::string_view("0123456789abcdef").find(lower(rest_[i]))
                               : std::string_view::npos;
      if (digit == std::string_view::npos) return fault("has an escape without its digits");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    rest_.remove_prefix(digits);
    if (code >= 0xD800 && code <= 0xDFFF) return fault("has half of a surrogate pair");
    return Ranges{{code, code}};
  }

  static char lower(char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; }

  /// One character or class of a bracket.
  Result<Ranges> member() {
    if (take("\\")) {
      if (take("b")) return Ranges{{'\b', '\b'}};
      return escape();
    }
    QUIRE_TRY(const uint32_t character, take_character());
    return Ranges{{character, character}};
  }

  Result<Expression> bracket() {
    const bool negated = take("^");
    bool has_shorthand = false;
    Ranges ranges;
    while (!take("]")) {
      if (rest_.empty()) return fault("has a [ without its ]");
      has_shorthand |= rest_.size() >= 2 && rest_[0] == '\\' &&
                       std::string_view("dDwWsS").find(rest_[1]) != std::string_view::npos;
      QUIRE_TRY(Ranges from, member());
      const bool spans = rest_.size() >= 2 && rest_[0] == '-' && rest_[1] != ']';
      if (spans && from.size() == 1 && from[0].first == from[0].second) {
        rest_.remove_prefix(1);
        QUIRE_TRY(const Ranges to, member());
        const bool ordered =
            to.size() == 1 && to[0].first == to[0].second && from[0].first <= to[0].first;
        if (!ordered) return fault("has a range of characters that is none");
        from = {{from[0].first, to[0].first}};
      }
      ranges.insert(ranges.end(), from.begin(), from.end());
    }
    if (negated) ranges = has_shorthand ? all_but_in_ascii(ranges) : all_but(ranges);
    if (ranges.empty()) return fault("has a class that no character is in");
    return class_of(std::move(ranges));
  }

  std::string_view rest_;
};

/// Writes what was parsed, each part before what comes before it.
class PatternWriter {
 public:
  explicit PatternWriter(JsonRules& rules) : rules_(rules), builder_(rules.builder()) {}

  /// Nothing if the vocabulary cannot spell any match.
  std::optional<NodeId> write(const Expression& expression, NodeId next) {
    switch (expression.kind) {
      case Expression::Kind::kClass:
        return one_of(expression.ranges, next);
      case Expression::Kind::kSequence: {
        std::optional<NodeId> at = next;
        for (size_t i = expression.parts.size(); at && i-- > 0;) {
          at = write(expression.parts[i], *at);
        }
        return at;
      }
      case Expression::Kind::kAlternatives: {
        std::vector<NodeId> ways;
        for (const Expression& part : expression.parts) {
          if (const auto way = write(part, next)) ways.push_back(*way);
        }
        return ways.empty() ? std::nullopt : std::optional(builder_.choice(ways));
      }
      case Expression::Kind::kRepeat: {
        const auto body = write(expression.parts.front(), builder_.done());
        if (!body) return expression.least == 0 ? std::optional(next) : std::nullopt;
        return builder_.repeat(builder_.rule(*body), expression.least, expression.most, next);
      }
    }
    return std::nullopt;
  }

 private:
  /// A character as JSON spells it: as itself, or with the shortest escape.
  std::optional<NodeId> one_of(const Ranges& ranges, NodeId next) {
    std::vector<NodeId> ways;
    ByteSet plain;
    for (const auto& [first, last] : ranges) {
      for (uint32_t code = first; code <= std::min<uint32_t>(last, 0x7F); ++code) {
        if (code >= 0x20 && code != '"' && code != '\\') {
          plain.add(static_cast<uint8_t>(code));
        } else {
          const std::string quoted = rules_.quoted(std::string(1, static_cast<char>(code)));
          ways.push_back(builder_.literal(quoted.substr(1, quoted.size() - 2), next));
        }
      }
      const uint32_t beyond = std::max<uint32_t>(first, 0x80);
      const bool surrogates_only = beyond >= 0xD800 && last <= 0xDFFF;
      if (beyond <= last && rules_.alphabet().unicode && !surrogates_only) {
        ways.push_back(rules_.characters(beyond, last, next));
      }
    }
    if (!plain.empty()) {
      const ByteSet rest = ByteSet::range(0x20, 0x7F).without(ByteSet::of("\"\\")).without(plain);
      const bool all = rest.empty() && covers_text(ranges);
      ways.push_back(all && next == builder_.done() ? builder_.text_start(plain, next)
                                                    : builder_.bytes(plain, next));
    }
    return ways.empty() ? std::nullopt : std::optional(builder_.choice(ways));
  }

  /// Whether all text beyond ASCII is in. // Node::begins_text
  static bool covers_text(const Ranges& ranges) {
    const Ranges missing = all_but(ranges);
    return std::all_of(missing.begin(), missing.end(), [](const Range& range) {
      return range.second < 0x80 || (range.first >= 0x2028 && range.second <= 0x2029);
    });
  }

  JsonRules& rules_;
  ProgramBuilder& builder_;
};

}  // namespace

Result<NodeId> string_matching(JsonRules& rules, std::string_view pattern, NodeId next) {
  QUIRE_TRY(const Expression expression, PatternParser(pattern).parse());
  ProgramBuilder& builder = rules.builder();
  const auto inside = PatternWriter(rules).write(expression, builder.literal("\"", next));
  if (!inside) {
    return Error{ErrorCode::kUsage, "matches nothing that this model's vocabulary can spell"};
  }
  return builder.literal("\"", *inside);
}

std::string_view pattern_of_format(std::string_view format) {
  // Without the 29th of February, so that no year need be known.
  constexpr std::string_view kDate =
      R"(^[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)$)";
  constexpr std::string_view kTime =
      R"(^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)";
  constexpr std::string_view kDateTime =
      R"(^[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)";
  constexpr std::string_view kUuid = R"(^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$)";
  constexpr std::string_view kIpv4 =
      R"(^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$)";
  if (format == "date") return kDate;
  if (format == "time") return kTime;
  if (format == "date-time") return kDateTime;
  if (format == "uuid") return kUuid;
  if (format == "ipv4") return kIpv4;
  return {};
}

}  // namespace quire::engine::grammar
