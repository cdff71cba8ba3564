// schema_merge.h: two JSON schemas as one that is satisfied by what satisfies both.
//
// Pure functions; any thread.
#pragma once
#include <optional>
#include <string_view>

#include "base/result.h"
#include "formats/json.h"

namespace quire::engine::grammar {

/// Both are objects without $ref, allOf, anyOf and oneOf. Nothing if no value satisfies both. The
/// error names the keyword that cannot be merged; `path` says where.
Result<std::optional<formats::Json>> merge_schemas(const formats::Json& a, const formats::Json& b,
                                                   std::string_view path);

}  // namespace quire::engine::grammar
