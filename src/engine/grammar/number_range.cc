// Numbers between two bounds, digit by digit.
//
// A number is compared with each bound as it is written: as long as it equals the bound's digits it
// is `tight`, and the bound limits the next digit; once it differs in the right direction any digit
// may follow. At most 15 digits in all, so that the double that is read equals what was written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/grammar/json_rules.h"

namespace quire::engine::grammar {
namespace {

using Way = std::optional<NodeId>;

constexpr size_t kMostDigits = 15;

/// Not negative: minus signs are dealt with outside.
struct Bounds {
  Decimal least;
  std::optional<Decimal> most;
  bool above_least = false;
  bool below_most = false;
};

class RangeWriter {
 public:
  RangeWriter(ProgramBuilder& builder, RuleId digit, const Bounds& bounds, bool fractions,
              NodeId next)
      : builder_(builder), digit_(digit), bounds_(bounds), fractions_(fractions), next_(next) {}

  Way write() {
    const size_t most_length = bounds_.most ? bounds_.most->whole.size() : kMostDigits;
    std::vector<NodeId> ways;
    for (size_t length = bounds_.least.whole.size(); length <= most_length; ++length) {
      length_ = length;
      const bool tight_low = length == bounds_.least.whole.size();
      const bool tight_high = bounds_.most && length == bounds_.most->whole.size();
      add(ways, whole(0, tight_low, tight_high));
    }
    return chosen(ways);
  }

 private:
  static void add(std::vector<NodeId>& ways, Way way) {
    if (way) ways.push_back(*way);
  }
  Way chosen(const std::vector<NodeId>& ways) {
    return ways.empty() ? Way() : Way(builder_.choice(ways));
  }

  /// One digit from `low` to `high` where the ends may stay tight; `rest` writes what follows.
  template <class Rest>
  Way digit(char low, char high, bool tight_low, bool tight_high, const Rest& rest) {
    std::vector<NodeId> ways;
    const auto step = [&](char from, char to, bool tight_from, bool tight_to) {
      if (from > to) return;
      const Way after = rest(tight_from, tight_to);
      if (after) ways.push_back(builder_.bytes(ByteSet::range(from, to), *after));
    };
    if (tight_low && tight_high && low == high) {
      step(low, low, true, true);
      return chosen(ways);
    }
    if (tight_low) step(low, low, true, false);
    step(static_cast<char>(tight_low ? low + 1 : low),
         static_cast<char>(tight_high ? high - 1 : high), false, false);
    if (tight_high) step(high, high, false, true);
    return chosen(ways);
  }

  Way whole(size_t at, bool tight_low, bool tight_high) {
    if (at == length_) return fraction_or_end(tight_low, tight_high);
    if (at > 0 && !tight_low && !tight_high) {
      const Way rest = fraction_or_end(false, false);
      const auto left = static_cast<int32_t>(length_ - at);
      return rest ? Way(builder_.repeat(digit_, left, left, *rest)) : Way();
    }
    // No leading zeros, but for zero itself.
    const char first = at == 0 && length_ > 1 ? '1' : '0';
    const char low = tight_low ? bounds_.least.whole[at] : first;
    const char high = tight_high ? bounds_.most->whole[at] : '9';
    if (low > high) return std::nullopt;
    return digit(low, high, tight_low, tight_high, [&](bool low_again, bool high_again) {
      return whole(at + 1, low_again, high_again);
    });
  }

  Way fraction_or_end(bool tight_low, bool tight_high) {
    std::vector<NodeId> ways;
    if (may_end(0, tight_low, tight_high)) ways.push_back(next_);
    if (fractions_ && length_ < kMostDigits) {
      if (const Way digits = fraction(0, tight_low, tight_high)) {
        ways.push_back(builder_.literal(".", *digits));
      }
    }
    return chosen(ways);
  }

  /// Whether what was written, `at` digits of the fraction included, is in the range.
  bool may_end(size_t at, bool tight_low, bool tight_high) const {
    if (tight_low) {
      const bool less = at < bounds_.least.fraction.size();
      if (less || bounds_.above_least) return false;
    }
    if (tight_high) {
      const bool equal = at >= bounds_.most->fraction.size();
      if (equal && bounds_.below_most) return false;
    }
    return true;
  }

  /// At least one digit more.
  Way fraction(size_t at, bool tight_low, bool tight_high) {
    const size_t left = kMostDigits - length_ - at;
    if (left == 0) return std::nullopt;
    if (!tight_low && !tight_high) {
      return builder_.repeat(digit_, 1, static_cast<int32_t>(left), next_);
    }
    const auto digit_of = [&](const Decimal& decimal) {
      return at < decimal.fraction.size() ? decimal.fraction[at] : '0';
    };
    const char low = tight_low ? digit_of(bounds_.least) : '0';
    const char high = tight_high ? digit_of(*bounds_.most) : '9';
    if (low > high) return std::nullopt;
    return digit(low, high, tight_low, tight_high, [&](bool low_again, bool high_again) {
      std::vector<NodeId> ways;
      if (may_end(at + 1, low_again, high_again)) ways.push_back(next_);
      add(ways, fraction(at + 1, low_again, high_again));
      return chosen(ways);
    });
  }

  ProgramBuilder& builder_;
  RuleId digit_;
  const Bounds& bounds_;
  bool fractions_;
  NodeId next_;
  size_t length_ = 0;
};

/// How `a` compares with `b`, neither negative.
int compare(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (a.whole != b.whole) return a.whole < b.whole ? -1 : 1;
  return a.fraction.compare(b.fraction);
}

Decimal zero() {
  return {.whole = "0"};
}

}  // namespace

std::optional<Decimal> decimal_of(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 1e15) return std::nullopt;
  Decimal decimal{.negative = value < 0};
  // The shortest text that reads back to the same double, without an exponent.
  std::string text;
  for (int digits = 0; digits <= static_cast<int>(kMostDigits); ++digits) {
    text = fmt::format("{:.{}f}", std::abs(value), digits);
    if (std::stod(text) == std::abs(value)) break;
  }
  if (std::stod(text) != std::abs(value)) return std::nullopt;
  const size_t point = text.find('.');
  decimal.whole = text.substr(0, point);
  if (point != std::string::npos) decimal.fraction = text.substr(point + 1);
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

std::optional<NodeId> JsonRules::number_in(const NumberRange& range, NodeId next) {
  const bool fractions = range.kind == NumberRange::Kind::kNumber;
  std::vector<NodeId> ways;
  const auto add = [&](const Bounds& bounds, bool negative) {
    if (bounds.most && compare(bounds.least, *bounds.most) > 0) return;
    const Way way = RangeWriter(builder_, digit_, bounds, fractions, next).write();
    if (way) ways.push_back(negative ? builder_.literal("-", *way) : *way);
  };
  const auto& [kind, least, most, above_least, below_most] = range;
  if (!most || !most->negative) {
    const bool from_zero = !least || least->negative;
    add({.least = from_zero ? zero() : *least,
         .most = most,
         .above_least = !from_zero && above_least,
         .below_most = below_most},
        false);
  }
  if (!least || least->negative) {
    // Mirrored: the most negative is the farthest from zero.
    const bool from_zero = !most || !most->negative;
    Bounds bounds{.least = from_zero ? zero() : *most,
                  .most = least,
                  .above_least = from_zero || below_most,
                  .below_most = above_least};
    add(bounds, true);
  }
  return ways.empty() ? std::nullopt : std::optional(builder_.choice(ways));
}

}  // namespace quire::engine::grammar
