// Ranges of characters as sequences of ranges of bytes. // Unicode 15, table 3-7
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "engine/grammar/json_rules.h"

namespace quire::engine::grammar {
namespace {

/// The sequences of `bytes` bytes from one to another that share their first `shared` bytes.
/// Requires first <= last.
NodeId between(ProgramBuilder& builder, std::string_view first, std::string_view last,
               NodeId next) {
  const auto low = static_cast<uint8_t>(first[0]);
  const auto high = static_cast<uint8_t>(last[0]);
  if (first.size() == 1) return builder.bytes(ByteSet::range(low, high), next);
  const std::string_view first_rest = first.substr(1);
  const std::string_view last_rest = last.substr(1);
  if (low == high) {
    return builder.bytes(ByteSet::range(low, low), between(builder, first_rest, last_rest, next));
  }
  const std::string least(first_rest.size(), '\x80');
  const std::string most(first_rest.size(), '\xBF');
  const bool whole_low = first_rest == least;
  const bool whole_high = last_rest == most;
  std::vector<NodeId> ways;
  if (!whole_low) {
    ways.push_back(
        builder.bytes(ByteSet::range(low, low), between(builder, first_rest, most, next)));
  }
  const int middle_first = whole_low ? low : low + 1;
  const int middle_last = whole_high ? high : high - 1;
  if (middle_first <= middle_last) {
    ways.push_back(builder.bytes(ByteSet::range(middle_first, middle_last),
                                 between(builder, least, most, next)));
  }
  if (!whole_high) {
    ways.push_back(
        builder.bytes(ByteSet::range(high, high), between(builder, least, last_rest, next)));
  }
  return builder.choice(ways);
}

std::string encoded(uint32_t code_point) {
  std::string text;
  utf8_append(text, code_point);
  return text;
}

}  // namespace

NodeId JsonRules::characters(uint32_t first, uint32_t last, NodeId next) {
  struct Stretch {
    uint32_t first, last;
  };
  // Of equal length, and without the surrogates.
  constexpr auto kStretches = std::to_array<Stretch>(
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}});
  std::vector<NodeId> ways;
  for (const Stretch& stretch : kStretches) {
    const uint32_t from = std::max(first, stretch.first);
    const uint32_t to = std::min(last, stretch.last);
    if (from > to) continue;
    ways.push_back(between(builder_, encoded(from), encoded(to), next));
  }
  return builder_.choice(ways);
}

}  // namespace quire::engine::grammar
