// schema_scalars.h: what a JSON schema says of strings, numbers and counts.
//
// A Place is one alternative of SchemaResolver. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "engine/grammar/json_rules.h"
#include "engine/grammar/schema_resolver.h"

namespace quire::engine::grammar {

/// A number without a fraction, however it is written.
bool is_whole(const formats::Json& value);

struct Counts {
  int32_t least = 0;
  int32_t most = kUnbounded;
  bool possible() const { return least <= most; }
};
/// Of two keywords that bound a count ("minItems", "maxItems").
Result<Counts> schema_counts(const Place& place, std::string_view least, std::string_view most);

/// A string or a number that the keywords allow; a way that cannot be taken if there is none.
Result<NodeId> schema_string(JsonRules& rules, const Place& place);
Result<NodeId> schema_number(JsonRules& rules, const Place& place, NumberRange::Kind kind);

}  // namespace quire::engine::grammar
