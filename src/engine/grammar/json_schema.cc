#include "engine/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "engine/grammar/schema_resolver.h"
#include "engine/grammar/schema_scalars.h"
#include "formats/printable.h"

namespace quire::engine::grammar {
namespace {

using formats::Json;

constexpr size_t kMostSchemaBytes = 1 << 20;
constexpr int64_t kMostSubschemaBytes = 64 << 20;  // all of them, each counted where it is nested

constexpr auto kTypes = std::to_array<std::string_view>(
    {"object", "array", "string", "number", "integer", "boolean", "null"});

struct KeywordOfType {
  std::string_view keyword;
  std::string_view type;
};
constexpr auto kKeywords = std::to_array<KeywordOfType>({{"properties", "object"},
                                                         {"required", "object"},
                                                         {"additionalProperties", "object"},
                                                         {"minProperties", "object"},
                                                         {"maxProperties", "object"},
                                                         {"items", "array"},
                                                         {"prefixItems", "array"},
                                                         {"additionalItems", "array"},
                                                         {"minItems", "array"},
                                                         {"maxItems", "array"},
                                                         {"uniqueItems", "array"},
                                                         {"minLength", "string"},
                                                         {"maxLength", "string"},
                                                         {"pattern", "string"},
                                                         {"format", "string"},
                                                         {"minimum", "number"},
                                                         {"maximum", "number"},
                                                         {"exclusiveMinimum", "number"},
                                                         {"exclusiveMaximum", "number"},
                                                         {"multipleOf", "number"}});

std::string_view type_name(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  return value.is_null() ? "null" : "number";
}

class SchemaCompiler {
 public:
  SchemaCompiler(JsonRules& rules, const Json& schema)
      : rules_(rules), builder_(rules.builder()), resolver_(schema) {}

  Result<RuleId> compile(const Json& schema) {
    const RuleId whole = rule_of({&schema, "#"});
    while (!pending_.empty()) {
      const auto [rule, place] = std::move(pending_.front());
      pending_.pop_front();
      QUIRE_TRY_VOID(define(rule, place));
      if (builder_.is_full() || subschema_bytes_ > kMostSubschemaBytes) {
        return Error{ErrorCode::kUsage, "the schema is too large to be followed"};
      }
    }
    return whole;
  }

 private:
  using Ways = std::vector<NodeId>;

  /// Equal schemas share a rule, which is defined later: so a schema may refer to itself.
  RuleId rule_of(Place place) {
    std::string text = place.schema->dump();
    subschema_bytes_ += static_cast<int64_t>(text.size());
    const auto [it, added] = known_.try_emplace(std::move(text));
    if (!added) return it->second;
    it->second = builder_.declare();
    pending_.push_back({it->second, std::move(place)});
    return it->second;
  }

  Result<void> define(RuleId rule, const Place& place) {
    QUIRE_TRY(const std::vector<Place> alternatives, resolver_.alternatives(place));
    Ways ways;
    for (const Place& alternative : alternatives) {
      QUIRE_TRY_VOID(add_ways(alternative, ways));
    }
    builder_.define(rule, ways.empty() ? builder_.impossible() : builder_.choice(ways));
    return {};
  }

  Result<void> add_ways(const Place& place, Ways& ways) {
    QUIRE_TRY(const std::vector<std::string_view> types, types_of(place));
    if (place.schema->find("const") != nullptr || place.schema->find("enum") != nullptr) {
      return add_fixed_values(place, types, ways);
    }
    if (types.empty()) {
      ways.push_back(rules_.value(builder_.done()));
      return {};
    }
    for (const std::string_view type : types) {
      QUIRE_TRY(const NodeId way, way_of_type(place, type));
      ways.push_back(way);
    }
    return {};
  }

  /// As given, or those that the keywords are about; empty for any.
  Result<std::vector<std::string_view>> types_of(const Place& place) const {
    std::vector<std::string_view> types;
    const auto add = [&](std::string_view type) {
      if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
    };
    if (const Json* given = place.schema->find("type")) {
      const Json::Array list = given->is_array() ? *given->as_array() : Json::Array{*given};
      if (list.empty()) return schema_error(place.path, "type must name at least one type");
      for (const Json& one : list) {
        const std::string* name = one.as_string();
        const auto known =
            name == nullptr ? kTypes.end() : std::find(kTypes.begin(), kTypes.end(), *name);
        if (known == kTypes.end()) {
          return schema_error(
              place.path, fmt::format("type {} is none of JSON's", formats::printable(one.dump())));
        }
        add(*known);
      }
      const bool numbers = std::find(types.begin(), types.end(), "number") != types.end();
      if (numbers) std::erase(types, "integer");
      return types;
    }
    for (const auto& [keyword, type] : kKeywords) {
      if (place.schema->find(keyword) != nullptr) add(type);
    }
    return types;
  }

  Result<NodeId> way_of_type(const Place& place, std::string_view type) {
    const NodeId done = builder_.done();
    if (type == "object") return object(place);
    if (type == "array") return array(place);
    if (type == "string") return schema_string(rules_, place);
    if (type == "number") return schema_number(rules_, place, NumberRange::Kind::kNumber);
    if (type == "integer") return schema_number(rules_, place, NumberRange::Kind::kInteger);
    if (type == "boolean") return builder_.any_of({"true", "false"}, done);
    return builder_.literal("null", done);
  }

  /// Values of `enum` and `const`.
  Result<void> add_fixed_values(const Place& place, const std::vector<std::string_view>& types,
                                Ways& ways) {
    for (const auto& [keyword, type] : kKeywords) {
      if (place.schema->find(keyword) == nullptr) continue;
      return schema_error(place.path,
                          fmt::format("{} beside enum or const is not supported", keyword));
    }
    const Json* given = place.schema->find("enum");
    if (given != nullptr && !given->is_array()) {
      return schema_error(place.path, "enum must be an array");
    }
    const Json* one = place.schema->find("const");
    const Json::Array values = given != nullptr ? *given->as_array() : Json::Array{*one};
    std::set<std::string> texts;
    for (const Json& value : values) {
      const bool excluded = one != nullptr && !(value == *one);
      if (!excluded && has_type(value, types)) texts.insert(rules_.spelled(value.dump()));
    }
    if (!texts.empty()) {
      ways.push_back(builder_.any_of({texts.begin(), texts.end()}, builder_.done()));
    }
    return {};
  }

  static bool has_type(const Json& value, const std::vector<std::string_view>& types) {
    return types.empty() || std::any_of(types.begin(), types.end(), [&](std::string_view type) {
             return type == type_name(value) ||
                    (type == "integer" && value.is_number() && is_whole(value));
           });
  }

  RuleId element_of(const Json& schema, const std::string& path) {
    return builder_.rule(builder_.call_deeper(rule_of({&schema, path}), builder_.done()));
  }

  Result<NodeId> array(const Place& place) {
    QUIRE_TRY(const Counts length, schema_counts(place, "minItems", "maxItems"));
    const Json* unique = place.schema->find("uniqueItems");
    if (unique != nullptr && unique->as_bool() != std::optional(false) && length.most > 1) {
      return schema_error(place.path, "uniqueItems is not supported");
    }
    if (!length.possible()) return builder_.impossible();
    const Json* items = place.schema->find("items");
    const Json* prefix = place.schema->find("prefixItems");
    std::string_view prefix_name = "prefixItems";
    if (prefix == nullptr && items != nullptr && items->is_array()) {  // before draft 2020-12
      prefix = items;
      prefix_name = "items";
      items = place.schema->find("additionalItems");
    }
    if (prefix != nullptr) {
      if (!prefix->is_array()) return schema_error(place.path, "prefixItems must be an array");
      return tuple(place, *prefix->as_array(), prefix_name, items, length);
    }
    const bool none = items != nullptr && items->as_bool() == std::optional(false);
    const ListShape shape{.least = length.least, .most = none ? 0 : length.most};
    if (shape.least > shape.most) return builder_.impossible();
    static const Json kAnything{Json::Object{}};
    const RuleId element = element_of(items != nullptr ? *items : kAnything, place.path + "/items");
    return list(rules_, shape, element, builder_.done());
  }

  /// The first elements each with a schema of its own; more only where `rest` is a schema.
  Result<NodeId> tuple(const Place& place, const Json::Array& prefix, std::string_view name,
                       const Json* rest, const Counts& length) {
    const bool open = rest != nullptr && rest->as_bool() != std::optional(false);
    const auto first_count =
        static_cast<int32_t>(std::min(prefix.size(), static_cast<size_t>(length.most)));
    const int32_t most_rest = !open                       ? 0
                              : length.most == kUnbounded ? kUnbounded
                                                          : length.most - first_count;
    const int32_t least_rest = std::max(length.least - first_count, 0);
    if (least_rest > most_rest) return builder_.impossible();
    const NodeId end = rules_.blanks(builder_.literal("]", builder_.done()));
    NodeId after = end;
    if (most_rest > 0) {
      const RuleId element = element_of(*rest, place.path + "/items");
      const RuleId more = builder_.rule(
          builder_.literal(",", rules_.blanks(builder_.call(element, builder_.done()))));
      after = builder_.repeat(more, least_rest, most_rest, end);
      if (first_count == 0) return array_of_rest(element, more, least_rest, most_rest, end);
    }
    for (int32_t i = first_count; i-- > 0;) {
      const RuleId element = element_of(prefix[i], fmt::format("{}/{}/{}", place.path, name, i));
      const NodeId one = rules_.blanks(builder_.call(element, after));
      const bool may_stop = i >= length.least;
      if (i == 0) {
        const NodeId empty = builder_.literal("]", builder_.done());
        return builder_.literal("[", may_stop ? builder_.choice({empty, one}) : one);
      }
      const NodeId more = builder_.literal(",", one);
      after = may_stop ? builder_.choice({more, end}) : more;
    }
    return builder_.literal("[]", builder_.done());
  }

  NodeId array_of_rest(RuleId element, RuleId more, int32_t least, int32_t most, NodeId end) {
    const int32_t most_more = most == kUnbounded ? kUnbounded : most - 1;
    const NodeId one = rules_.blanks(
        builder_.call(element, builder_.repeat(more, std::max(least - 1, 0), most_more, end)));
    const NodeId empty = builder_.literal("]", builder_.done());
    return builder_.literal("[", least == 0 ? builder_.choice({empty, one}) : one);
  }

  struct Member {
    std::string key;
    RuleId value;
    bool required = false;
  };
  struct Members {
    std::vector<Member> named;
    std::vector<std::string> taken;  // keys that no other member may have
    std::optional<RuleId> other;     // what a further member is
    bool any_required() const {
      return std::any_of(named.begin(), named.end(), [](const Member& m) { return m.required; });
    }
  };

  Result<std::set<std::string>> required_of(const Place& place) const {
    std::set<std::string> required;
    const Json* names = place.schema->find("required");
    if (names == nullptr || names->is_bool()) return required;  // a boolean: draft 3
    if (!names->is_array()) return schema_error(place.path, "required must be an array");
    for (const Json& name : *names->as_array()) {
      if (!name.is_string()) return schema_error(place.path, "required must be strings");
      required.insert(*name.as_string());
    }
    return required;
  }

  /// Nothing if no object satisfies them.
  Result<std::optional<Members>> members_of(const Place& place) {
    QUIRE_TRY(std::set<std::string> required, required_of(place));
    const Json* properties = place.schema->find("properties");
    const Json* others = place.schema->find("additionalProperties");
    if (properties != nullptr && !properties->is_object()) {
      return schema_error(place.path, "properties must be an object");
    }
    Members members;
    const auto add = [&](const std::string& key, const Json& schema, const std::string& path) {
      members.taken.push_back(key);
      const bool needed = required.erase(key) > 0;
      if (schema.as_bool() == std::optional(false)) return !needed;
      members.named.push_back({rules_.quoted(key), rule_of({&schema, path}), needed});
      return true;
    };
    bool possible = true;
    if (properties != nullptr) {
      for (const auto& [key, schema] : *properties->as_object()) {
        possible &= add(key, schema, fmt::format("{}/properties/{}", place.path, key));
      }
    }
    static const Json kAnything{Json::Object{}};
    const Json& of_others = others != nullptr ? *others : kAnything;
    const std::string others_path = place.path + "/additionalProperties";
    for (const std::string& key : std::set<std::string>(required)) {
      possible &= add(key, of_others, others_path);
    }
    if (!possible) return std::optional<Members>();
    const bool closed =
        others == nullptr ? !members.taken.empty() : others->as_bool() == std::optional(false);
    if (!closed) {
      const NodeId value =
          builder_.literal(":", rules_.one_blank(builder_.call_deeper(
                                    rule_of({&of_others, others_path}), builder_.done())));
      members.other = builder_.rule(rules_.other_key(members.taken, value));
    }
    return std::optional(std::move(members));
  }

  Result<NodeId> object(const Place& place) {
    QUIRE_TRY(const Counts size, schema_counts(place, "minProperties", "maxProperties"));
    QUIRE_TRY(const std::optional<Members> members, members_of(place));
    if (!members || !size.possible()) return builder_.impossible();
    const auto required = std::count_if(members->named.begin(), members->named.end(),
                                        [](const Member& member) { return member.required; });
    const bool counted =
        size.least > required ||
        (size.most != kUnbounded &&
         (members->other || members->named.size() > static_cast<size_t>(size.most)));
    if (counted && members->named.empty() && members->other && size.least <= 1) {
      return list(rules_, {.open = '{', .close = '}', .least = size.least, .most = size.most},
                  *members->other, builder_.done());
    }
    if (counted) {
      return schema_error(place.path,
                          "minProperties and maxProperties are not supported for these properties");
    }
    return write_members(*members);
  }

  /// From the last to the first: after each, those that follow, or the end.
  NodeId write_members(const Members& members) {
    const NodeId empty = builder_.literal("}", builder_.done());
    const NodeId end = rules_.blanks(empty);
    NodeId after = end;           // after a member, where what follows are those from here on
    std::optional<NodeId> inner;  // one of those from here on
    if (members.other) {
      const RuleId more = builder_.rule(
          builder_.literal(",", rules_.blanks(builder_.call(*members.other, builder_.done()))));
      after = builder_.repeat(more, 0, kUnbounded, end);
      inner = builder_.call(*members.other, after);
    }
    bool may_end = true;
    for (size_t i = members.named.size(); i-- > 0;) {
      const Member& member = members.named[i];
      const NodeId one = builder_.literal(
          member.key + ":", rules_.one_blank(builder_.call_deeper(member.value, after)));
      inner = inner && !member.required ? builder_.choice({one, *inner}) : one;
      may_end &= !member.required;
      const NodeId more = builder_.literal(",", rules_.blanks(*inner));
      after = may_end ? builder_.choice({more, end}) : more;
    }
    if (!inner) return builder_.literal("{}", builder_.done());
    const NodeId first = rules_.blanks(*inner);
    return builder_.literal("{", may_end ? builder_.choice({empty, first}) : first);
  }

  struct Pending {
    RuleId rule;
    Place place;
  };
  JsonRules& rules_;
  ProgramBuilder& builder_;
  SchemaResolver resolver_;
  std::unordered_map<std::string, RuleId> known_;
  std::deque<Pending> pending_;
  int64_t subschema_bytes_ = 0;
};

}  // namespace

Result<RuleId> json_schema_rule(JsonRules& rules, const Json& schema) {
  if (!schema.is_object() && !schema.is_bool()) {
    return schema_error("#", "a schema must be an object or a boolean");
  }
  if (schema.dump().size() > kMostSchemaBytes) {
    return Error{ErrorCode::kUsage, "the schema is too large: at most 1 MiB is followed"};
  }
  return SchemaCompiler(rules, schema).compile(schema);
}

}  // namespace quire::engine::grammar
