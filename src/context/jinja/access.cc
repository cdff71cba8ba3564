#include "context/jinja/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "context/jinja/methods.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"

namespace quire::context::jinja {
namespace {

std::string described(const Value& object) {
  return object.is_none() ? "None" : fmt::format("{} object", object.type_name());
}

Value missing_attribute(const Value& object, std::string_view name) {
  return Value::undefined(
      fmt::format("{} has no attribute {}", quoted(described(object)), quoted(name)));
}

Value denied_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute {} of '{}' object is unsafe",
                                      quoted(name), object.type_name()));
}

Result<Value> missing_item(Runtime& runtime, const Value& object, const Value& key) {
  Text text;
  QUIRE_TRY_VOID(append_repr(runtime, text, key));
  return Value::undefined(fmt::format("{} has no element {}", described(object), text.bytes()));
}

bool is_dunder(std::string_view name) {
  return name.substr(0, 2) == "__";
}

/// What Python's getattr finds, as far as the sandbox lets it; nothing if there is no such
/// attribute.
Result<std::optional<Value>> python_attribute(const Value& object, std::string_view name) {
  if (Object* holder = object.as_object()) return holder->attribute(name);
  if (changes_its_object(object, name)) return std::optional(denied_attribute(object, name));
  if (!has_method(object, name)) return std::optional<Value>();
  const auto body = [object, method = std::string(name)](Runtime& runtime,
                                                         const Arguments& arguments) {
    return call_method(runtime, object, method, arguments);
  };
  return std::optional(Value(std::make_shared<Function>(std::string(name), body)));
}

struct SliceBounds {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
};

/// Python's clipping of one slice bound.
int64_t clip(int64_t index, int64_t length, int64_t step) {
  if (index < 0) {
    index += length;
    if (index < 0) return step < 0 ? -1 : 0;
  }
  if (index >= length) return step < 0 ? length - 1 : length;
  return index;
}

/// A slice resolved against a length: first, first + step, ... before last.
struct ResolvedSlice {
  int64_t first, last, step;

  /// The selected positions in order; length at most 2^32.
  std::vector<size_t> positions(int64_t length) const {
    std::vector<size_t> out;
    // A stride beyond the length selects one position: clamped, so that nothing overflows.
    const int64_t stride = step > 0 ? std::min(step, length + 1) : std::max(step, -length - 1);
    for (int64_t i = first; step > 0 ? i < last : i > last; i += stride) {
      out.push_back(static_cast<size_t>(i));
    }
    return out;
  }
};

ResolvedSlice resolve_slice(int64_t length, const SliceBounds& bounds) {
  const int64_t step = bounds.step;
  const int64_t first = bounds.start ? clip(*bounds.start, length, step)
                        : step < 0   ? length - 1
                                     : 0;
  const int64_t last = bounds.stop ? clip(*bounds.stop, length, step) : step < 0 ? -1 : length;
  return {first, last, step};
}

Result<Value> slice_text(Runtime& runtime, const Text& text, const SliceBounds& bounds) {
  if (!runtime.budget.spend(text.size() / 4 + 1)) return Budget::exhausted();
  const std::vector<size_t> offsets = text.character_offsets();
  const int64_t length = static_cast<int64_t>(offsets.size()) - 1;
  const ResolvedSlice slice = resolve_slice(length, bounds);
  if (slice.step == 1) {
    const size_t first = static_cast<size_t>(slice.first);
    const size_t last = std::max(first, static_cast<size_t>(slice.last));
    return make_text(runtime, text.slice(offsets[first], offsets[last]));
  }
  Text out;
  for (const size_t i : slice.positions(length)) out.append(text, offsets[i], offsets[i + 1]);
  return make_text(runtime, std::move(out));
}

Result<Value> slice_sequence(Runtime& runtime, const Sequence& sequence, const SliceBounds& bounds,
                             Origin origin) {
  if (!runtime.budget.spend(sequence.items.size() + 1)) return Budget::exhausted();
  const int64_t length = static_cast<int64_t>(sequence.items.size());
  const ResolvedSlice slice = resolve_slice(length, bounds);
  std::vector<Value> items;
  for (const size_t i : slice.positions(length)) items.push_back(sequence.items[i]);
  QUIRE_TRY(Value value, make_sequence(runtime, std::move(items), sequence.kind, origin));
  Sequence& result = *value.as_sequence();
  result.range_start = sequence.range_start + slice.first * sequence.range_step;
  result.range_stop = sequence.range_start + slice.last * sequence.range_step;
  result.range_step = sequence.range_step * slice.step;
  return value;
}

Result<Value> character_at(const Text& text, int64_t index) {
  const std::vector<size_t> offsets = text.character_offsets();
  const int64_t length = static_cast<int64_t>(offsets.size()) - 1;
  if (index < 0) index += length;
  if (index < 0 || index >= length) return Value::undefined("string index out of range");
  const size_t at = static_cast<size_t>(index);
  return Value(text.slice(offsets[at], offsets[at + 1]));
}

/// The value behind a key; nullptr also where Python would not hash the key.
Result<const Value*> find_key(Runtime& runtime, const Dict& dict, const Value& key) {
  if (const Text* text = key.as_text()) {
    if (!runtime.budget.spend_bytes(text->size())) return Budget::exhausted();
    return dict.find(text->bytes());
  }
  std::string canonical;
  const bool hashable = append_canonical_key(canonical, key);
  if (!runtime.budget.spend(canonical.size() / 2 + 1)) return Budget::exhausted();
  return hashable ? dict.find(key) : nullptr;
}

/// A list's, tuple's, range's or string's item by number; nothing where Python has an IndexError.
Result<std::optional<Value>> item_by_index(Runtime& runtime, const Value& object, int64_t index) {
  if (const Text* text = object.as_text()) {
    if (!runtime.budget.spend(text->size() / 4 + 1)) return Budget::exhausted();
    QUIRE_TRY(Value character, character_at(*text, index));
    if (character.is_undefined()) return std::optional<Value>();
    return std::optional(std::move(character));
  }
  const Sequence* sequence = object.as_sequence();
  if (sequence == nullptr || !sequence->is_indexable()) return std::optional<Value>();
  const int64_t length = static_cast<int64_t>(sequence->items.size());
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::optional<Value>();
  return std::optional(sequence->items[static_cast<size_t>(index)]);
}

}  // namespace

Result<Value> get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (!is_dunder(name)) QUIRE_TRY_VOID(require_defined(object));
  if (!runtime.budget.spend(1)) return Budget::exhausted();
  QUIRE_TRY(std::optional<Value> attribute, python_attribute(object, name));
  if (attribute) return std::move(*attribute);
  if (const Dict* dict = object.as_dict()) {
    if (const Value* value = dict->find(name)) return *value;
  }
  return is_dunder(name) ? denied_attribute(object, name) : missing_attribute(object, name);
}

Result<Value> get_item(Runtime& runtime, const Value& object, const Value& key) {
  QUIRE_TRY_VOID(require_defined(object));
  if (!runtime.budget.spend(1)) return Budget::exhausted();
  if (const Dict* dict = object.as_dict()) {
    QUIRE_TRY(const Value* value, find_key(runtime, *dict, key));
    if (value != nullptr) return *value;
  } else if (const auto index = key.as_integer()) {
    QUIRE_TRY(std::optional<Value> item, item_by_index(runtime, object, *index));
    if (item) return std::move(*item);
  }
  const Text* name = key.as_text();
  if (name == nullptr) return missing_item(runtime, object, key);
  QUIRE_TRY(std::optional<Value> attribute, python_attribute(object, name->bytes()));
  if (attribute) return std::move(*attribute);
  return is_dunder(name->bytes()) ? denied_attribute(object, name->bytes())
                                  : missing_attribute(object, name->bytes());
}

Result<Value> get_slice(Runtime& runtime, const Value& object, const Value& start,
                        const Value& stop, const Value& step) {
  QUIRE_TRY_VOID(require_defined(object));
  for (const Value* part : {&start, &stop, &step}) {
    if (!part->is_none() && !part->as_integer()) {
      return template_error("slice indices must be integers or none");
    }
  }
  const SliceBounds bounds{start.as_integer(), stop.as_integer(), step.as_integer().value_or(1)};
  if (bounds.step == 0) return template_error("a slice's step cannot be zero");
  if (const Text* text = object.as_text()) return slice_text(runtime, *text, bounds);
  const Sequence* sequence = object.as_sequence();
  if (sequence == nullptr || !sequence->is_indexable()) {
    return template_error(fmt::format("'{}' object cannot be sliced", object.type_name()));
  }
  return slice_sequence(runtime, *sequence, bounds, object.origin());
}

Result<Value> get_path(Runtime& runtime, Value object, const Value& path) {
  const Text* text = path.as_text();
  if (text == nullptr) return get_item(runtime, object, path);
  std::string_view rest = text->bytes();
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && part.front() != '-' && parsed.ec == std::errc() &&
                          parsed.ptr == part.data() + part.size();
    const Value key = is_index ? Value(index) : Value::string(std::string(part));
    QUIRE_TRY(object, get_item(runtime, object, key));
    if (part.size() == rest.size()) return object;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace quire::context::jinja
