// schema_resolver.h: a JSON schema as alternatives without references or combinations.
//
// $ref is followed within the document, allOf is merged keyword by keyword, anyOf and oneOf become
// alternatives (one that satisfies a branch of oneOf is taken to satisfy no other). What cannot be
// merged, and keywords that a grammar cannot follow, are refused with their place in the document.
// Refers to its document, and owns what it merges: results live as long as it. One thread.
#pragma once
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/json.h"

namespace quire::engine::grammar {

/// A schema and where it stands: "#/properties/name".
struct Place {
  const formats::Json* schema = nullptr;
  std::string path;
};

/// An error in a schema: "the schema at #/items: minItems must be ...".
Error schema_error(std::string_view path, std::string_view what);

class SchemaResolver {
 public:
  explicit SchemaResolver(const formats::Json& document) : document_(document) {}

  /// Objects without $ref, allOf, anyOf and oneOf, one of which an answer must satisfy; none if
  /// nothing satisfies the schema.
  Result<std::vector<Place>> alternatives(const Place& schema);

 private:
  using Places = std::vector<Place>;
  Result<void> add_alternatives(const Place& schema, int32_t depth, Places& out);
  Result<void> restrict_to(Places& current, const Place& also, int32_t depth);
  Result<void> restrict_to_any(Places& current, const Place& list, int32_t depth);
  Result<void> multiply(Places& current, const Places& others);
  Result<const formats::Json*> follow(std::string_view reference, std::string_view path) const;
  Result<std::optional<Place>> merged(const Place& a, const Place& b);
  const formats::Json* keep(formats::Json schema);

  const formats::Json& document_;
  std::deque<formats::Json> kept_;
  std::set<std::string, std::less<>> open_references_;
  int64_t merged_values_ = 0;
};

}  // namespace quire::engine::grammar
