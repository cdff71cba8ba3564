#include "engine/grammar/schema_scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "engine/grammar/string_pattern.h"
#include "formats/printable.h"

namespace quire::engine::grammar {
namespace {

using formats::Json;

Result<std::optional<int32_t>> count(const Place& place, std::string_view keyword) {
  const Json* value = place.schema->find(keyword);
  if (value == nullptr) return std::optional<int32_t>();
  const auto number = value->as_double();
  if (!number || *number < 0 || !is_whole(*value)) {
    return schema_error(place.path, fmt::format("{} must be a whole number, 0 or more", keyword));
  }
  return std::optional(static_cast<int32_t>(std::min(*number, double{kUnbounded})));
}

Result<std::string> pattern_of(const Place& place) {
  const Json* format = place.schema->find("format");
  const std::string_view of_format =
      format != nullptr && format->is_string() ? pattern_of_format(*format->as_string()) : "";
  const Json* pattern = place.schema->find("pattern");
  if (pattern == nullptr) return std::string(of_format);
  if (!pattern->is_string()) return schema_error(place.path, "pattern must be a string");
  if (pattern->as_string()->empty()) return std::string(of_format);
  return *pattern->as_string();
}

enum class Border : uint8_t { kIncluded, kExcluded };

/// Keeps the bound that restricts more. `excluded`: the bound itself is out.
Result<void> tighten(const Place& place, std::string_view keyword, Border border,
                     std::optional<double>& bound, bool& excluded) {
  const Json* given = place.schema->find(keyword);
  const bool excludes = border == Border::kExcluded;
  if (given == nullptr || (excludes && given->is_bool())) return {};
  const auto number = given->as_double();
  if (!number) return schema_error(place.path, fmt::format("{} must be a number", keyword));
  const bool lower = keyword.ends_with("inimum");
  const bool tighter =
      !bound || (lower ? *number > *bound : *number < *bound) || (*number == *bound && excludes);
  if (!tighter) return {};
  bound = number;
  excluded = excludes;
  return {};
}

}  // namespace

bool is_whole(const Json& value) {
  const auto number = value.as_double();
  return value.is_int() ||
         (number &&
          *number == static_cast<double>(static_cast<int64_t>(std::clamp(*number, -9e18, 9e18))));
}

Result<Counts> schema_counts(const Place& place, std::string_view least, std::string_view most) {
  QUIRE_TRY(const auto low, count(place, least));
  QUIRE_TRY(const auto high, count(place, most));
  return Counts{low.value_or(0), high.value_or(kUnbounded)};
}

Result<NodeId> schema_string(JsonRules& rules, const Place& place) {
  ProgramBuilder& builder = rules.builder();
  QUIRE_TRY(const Counts length, schema_counts(place, "minLength", "maxLength"));
  QUIRE_TRY(const std::string pattern, pattern_of(place));
  const bool bounded = length.least > 0 || length.most != kUnbounded;
  if (pattern.empty()) {
    if (!length.possible()) return builder.impossible();
    return rules.string(length.least, length.most, builder.done());
  }
  if (bounded) {
    return schema_error(place.path,
                        "minLength and maxLength beside pattern or format are not supported; "
                        "write the length into the pattern");
  }
  auto matched = string_matching(rules, pattern, builder.done());
  if (matched.ok()) return matched;
  return schema_error(place.path, fmt::format("the pattern {} {}", formats::printable(pattern),
                                              matched.error().message));
}

Result<NodeId> schema_number(JsonRules& rules, const Place& place, NumberRange::Kind kind) {
  ProgramBuilder& builder = rules.builder();
  const NodeId done = builder.done();
  const Json* step = place.schema->find("multipleOf");
  const bool whole_step = step != nullptr && step->as_double() == std::optional(1.0);
  if (step != nullptr && !whole_step) {
    return schema_error(place.path, "multipleOf other than 1 is not supported");
  }
  if (whole_step) kind = NumberRange::Kind::kInteger;
  std::optional<double> least, most;
  NumberRange range{.kind = kind};
  QUIRE_TRY_VOID(tighten(place, "minimum", Border::kIncluded, least, range.above_least));
  QUIRE_TRY_VOID(tighten(place, "exclusiveMinimum", Border::kExcluded, least, range.above_least));
  QUIRE_TRY_VOID(tighten(place, "maximum", Border::kIncluded, most, range.below_most));
  QUIRE_TRY_VOID(tighten(place, "exclusiveMaximum", Border::kExcluded, most, range.below_most));
  if (!least && !most) {
    return kind == NumberRange::Kind::kInteger ? rules.integer(done) : rules.number(done);
  }
  // Draft 4: a boolean that is about its neighbour.
  const auto draft4 = [&](const char* keyword) {
    const Json* flag = place.schema->find(keyword);
    return flag != nullptr && flag->as_bool() == std::optional(true);
  };
  range.above_least |= draft4("exclusiveMinimum");
  range.below_most |= draft4("exclusiveMaximum");
  // Of numbers in a range at most 15 digits are written, so bounds beyond them say nothing.
  constexpr double kBeyond = 1e15;
  if (least && *least <= -kBeyond) least.reset();
  if (most && *most >= kBeyond) most.reset();
  if (least) range.least = decimal_of(*least);
  if (most) range.most = decimal_of(*most);
  if (range.least.has_value() != least.has_value() || range.most.has_value() != most.has_value()) {
    return schema_error(place.path, "a bound of a number has more than 15 digits");
  }
  return rules.number_in(range, done).value_or(builder.impossible());
}

}  // namespace quire::engine::grammar
