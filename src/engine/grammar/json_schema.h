// json_schema.h: a JSON schema becomes rules of a grammar.
//
// Whatever the rules match satisfies the schema; not everything that satisfies it is matched:
// properties come in the order in which the schema names them, an object with `properties` has no
// others unless `additionalProperties` says so, and numbers, blanks and nesting are bounded as
// json_rules.h says. A keyword that restricts values and cannot be followed is refused by name and
// place; one that JSON Schema does not know says nothing.
// Pure function; any thread. Needs little stack whatever the schema.
#pragma once
#include "base/result.h"
#include "engine/grammar/json_rules.h"
#include "formats/json.h"

namespace quire::engine::grammar {

/// A value that satisfies `schema`.
Result<RuleId> json_schema_rule(JsonRules& rules, const formats::Json& schema);

}  // namespace quire::engine::grammar
