#include "context/jinja/from_json.h"

#include <algorithm>

#include "context/jinja/budget.h"

namespace quire::context::jinja {
namespace {

using formats::Json;

Result<Value> convert(const Json& json, Origin origin, int32_t depth) {
  if (depth > kMaxValueDepth) return Budget::too_deep();
  if (const auto flag = json.as_bool()) return Value(*flag, origin);
  if (json.is_int()) return Value(*json.as_int(), origin);
  if (json.is_double()) return Value(*json.as_double(), origin);
  if (const std::string* text = json.as_string()) return Value(Text(*text, origin));
  if (const Json::Array* array = json.as_array()) {
    auto sequence = std::make_shared<Sequence>();
    sequence->items.reserve(array->size());
    for (const Json& element : *array) {
      QUIRE_TRY(Value item, convert(element, origin, depth + 1));
      sequence->depth = std::max(sequence->depth, item.depth() + 1);
      sequence->items.push_back(std::move(item));
    }
    return Value(std::move(sequence), origin);
  }
  if (const Json::Object* object = json.as_object()) {
    Dict dict;
    for (const auto& [key, member] : *object) {
      QUIRE_TRY(Value value, convert(member, origin, depth + 1));
      dict.set(Value(Text(key, origin)), std::move(value));
    }
    return Value(std::make_shared<const Dict>(std::move(dict)), origin);
  }
  return Value::none(origin);
}

}  // namespace

Result<Value> from_json(const Json& json, Origin origin) {
  return convert(json, origin, 1);
}

}  // namespace quire::context::jinja
