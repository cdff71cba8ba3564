#include "context/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::context::jinja {
namespace {

Result<std::vector<Value>> characters(Runtime& runtime, const Text& text) {
  const std::vector<size_t> offsets = text.character_offsets();
  if (!runtime.budget.spend(2 * offsets.size())) return Budget::exhausted();
  std::vector<Value> out;
  out.reserve(offsets.size() - 1);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    out.emplace_back(text.slice(offsets[i], offsets[i + 1]));
  }
  return out;
}

Result<std::vector<Value>> rest_of(Runtime& runtime, Sequence& sequence) {
  const size_t begin = sequence.is_generator() ? sequence.consumed : 0;
  if (!runtime.budget.spend(sequence.items.size() - begin + 1)) return Budget::exhausted();
  if (sequence.is_generator()) sequence.consumed = sequence.items.size();
  return std::vector<Value>(sequence.items.begin() + static_cast<std::ptrdiff_t>(begin),
                            sequence.items.end());
}

}  // namespace

Error template_error(std::string message) {
  return {ErrorCode::kUnsupported, std::move(message)};
}

Result<Value> make_text(Runtime& runtime, Text text) {
  if (text.size() > runtime.limits.max_output_bytes) return Budget::exhausted();
  if (!runtime.budget.spend_bytes(text.size() + text.runs().size_bytes())) {
    return Budget::exhausted();
  }
  const size_t bytes = text.size() + text.runs().size_bytes();
  if (bytes <= kLongTextBytes) return Value(std::move(text));
  if (bytes > runtime.limits.max_live_bytes - runtime.live_bytes) return Budget::exhausted();
  runtime.live_bytes += bytes;
  // No value survives its render's runtime: what a render returns is a Text.
  const auto release = [&runtime, bytes](const Text* released) {
    runtime.live_bytes -= bytes;
    delete released;
  };
  return Value(TextPtr(new const Text(std::move(text)), release));
}

Result<Value> make_sequence(Runtime& runtime, std::vector<Value> items, SequenceKind kind,
                            Origin origin) {
  if (!runtime.budget.spend(items.size() + 1)) return Budget::exhausted();
  int32_t depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  if (depth > kMaxValueDepth) return Budget::too_deep();
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  sequence->items = std::move(items);
  sequence->depth = depth;
  return Value(std::move(sequence), origin);
}

Result<Value> make_dict(Runtime& runtime, Dict dict, Origin origin) {
  if (!runtime.budget.spend(4 * dict.size() + 1)) return Budget::exhausted();
  if (dict.depth() > kMaxValueDepth) return Budget::too_deep();
  return Value(std::make_shared<const Dict>(std::move(dict)), origin);
}

Result<std::vector<Value>> iterate(Runtime& runtime, Value& value) {
  if (value.is_undefined()) return std::vector<Value>{};
  if (const Text* text = value.as_text()) return characters(runtime, *text);
  if (Sequence* sequence = value.as_sequence()) return rest_of(runtime, *sequence);
  if (const Dict* dict = value.as_dict()) {
    if (!runtime.budget.spend(dict->size() + 1)) return Budget::exhausted();
    std::vector<Value> keys;
    keys.reserve(dict->size());
    for (const Dict::Entry& entry : dict->entries()) keys.push_back(entry.first);
    return keys;
  }
  return template_error(fmt::format("'{}' object is not iterable", value.type_name()));
}

Result<std::string> canonical_key(Runtime& runtime, const Value& key) {
  std::string canonical;
  const bool hashable = append_canonical_key(canonical, key);
  // A dict that is searched entry by entry makes up to sixteen keys like this one.
  if (!runtime.budget.spend(canonical.size() / 2 + 1)) return Budget::exhausted();
  if (hashable) return canonical;
  return template_error(fmt::format("unhashable type: '{}'", key.type_name()));
}

Result<int64_t> length_of(const Value& value) {
  if (value.is_undefined()) return int64_t{0};
  if (const Text* text = value.as_text()) return static_cast<int64_t>(text->num_characters());
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->size());
  const Sequence* sequence = value.as_sequence();
  if (sequence != nullptr && !sequence->is_generator()) {
    return static_cast<int64_t>(sequence->items.size());
  }
  return template_error(fmt::format("object of type '{}' has no len()", value.type_name()));
}

Result<Bound> bind(std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> names, size_t num_required) {
  Bound bound(names.size());
  if (arguments.positional.size() > names.size()) {
    return template_error(fmt::format("{}() takes at most {} arguments ({} given)", function,
                                      names.size(), arguments.positional.size()));
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
  for (const auto& [name, value] : arguments.keyword) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      return template_error(
          fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    }
    std::optional<Value>& slot = bound[static_cast<size_t>(at - names.begin())];
    if (slot) {
      return template_error(
          fmt::format("{}() got multiple values for argument '{}'", function, name));
    }
    slot = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (!bound[i]) {
      return template_error(
          fmt::format("{}() needs the argument '{}'", function, names.begin()[i]));
    }
  }
  return bound;
}

Result<int64_t> integer_or(const std::optional<Value>& argument, int64_t otherwise,
                           std::string_view name) {
  if (!argument) return otherwise;
  if (const auto integer = argument->as_integer()) return *integer;
  return template_error(
      fmt::format("'{}' must be an integer, not '{}'", name, argument->type_name()));
}

}  // namespace quire::context::jinja
