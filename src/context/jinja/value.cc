#include "context/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quire::context::jinja {
namespace {

/// From this size on a dict is searched by hash.
constexpr size_t kIndexedDictSize = 16;
/// Tuples inside tuples can share their parts: a longer key counts as not hashable.
constexpr size_t kMaxKeyBytes = 4096;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string_view sequence_type_name(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kGenerator:
      return "generator";
    case SequenceKind::kDictKeys:
      return "dict_keys";
    case SequenceKind::kDictValues:
      return "dict_values";
    case SequenceKind::kDictItems:
      return "dict_items";
  }
  return "list";
}

void append_canonical_double(std::string& out, double number) {
  if (std::nearbyint(number) == number && std::fabs(number) < 9.2e18) {
    out += "i" + std::to_string(static_cast<int64_t>(number)) + ";";
    return;
  }
  char bits[sizeof number];
  std::memcpy(bits, &number, sizeof number);
  out += "f";
  out.append(bits, sizeof bits);
}

}  // namespace

Value Value::undefined(std::string message) {
  Value out;
  out.data_ = std::make_shared<const Undefined>(Undefined{std::move(message)});
  return out;
}

Value Value::none(Origin origin) {
  Value out;
  out.origin_ = origin;
  return out;
}

std::optional<int64_t> Value::as_integer() const {
  if (const auto* flag = std::get_if<bool>(&data_)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<int64_t>(&data_)) return *number;
  return std::nullopt;
}

std::optional<double> Value::as_double() const {
  if (const auto* number = std::get_if<double>(&data_)) return *number;
  if (const auto integer = as_integer()) return static_cast<double>(*integer);
  return std::nullopt;
}

const Text* Value::as_text() const {
  const auto* text = std::get_if<TextPtr>(&data_);
  return text == nullptr ? nullptr : text->get();
}

const Sequence* Value::as_sequence() const {
  const auto* sequence = std::get_if<SequencePtr>(&data_);
  return sequence == nullptr ? nullptr : sequence->get();
}

Sequence* Value::as_sequence() {
  const auto* sequence = std::get_if<SequencePtr>(&data_);
  return sequence == nullptr ? nullptr : sequence->get();
}

const Dict* Value::as_dict() const {
  const auto* dict = std::get_if<DictPtr>(&data_);
  return dict == nullptr ? nullptr : dict->get();
}

Object* Value::as_object() const {
  const auto* object = std::get_if<ObjectPtr>(&data_);
  return object == nullptr ? nullptr : object->get();
}

ObjectPtr Value::object_ptr() const {
  const auto* object = std::get_if<ObjectPtr>(&data_);
  return object == nullptr ? nullptr : *object;
}

const Undefined* Value::as_undefined() const {
  const auto* undefined = std::get_if<UndefinedPtr>(&data_);
  return undefined == nullptr ? nullptr : undefined->get();
}

bool Value::truthy() const {
  return std::visit(
      Overloaded{[](None) { return false; }, [](const UndefinedPtr&) { return false; },
                 [](bool flag) { return flag; }, [](int64_t number) { return number != 0; },
                 [](double number) { return number != 0; },
                 [](const TextPtr& text) { return !text->empty(); },
                 [](const SequencePtr& seq) { return seq->is_generator() || !seq->items.empty(); },
                 [](const DictPtr& dict) { return dict->size() > 0; },
                 [](const ObjectPtr&) { return true; }},
      data_);
}

std::string_view Value::type_name() const {
  return std::visit(Overloaded{[](None) -> std::string_view { return "NoneType"; },
                               [](const UndefinedPtr&) -> std::string_view { return "Undefined"; },
                               [](bool) -> std::string_view { return "bool"; },
                               [](int64_t) -> std::string_view { return "int"; },
                               [](double) -> std::string_view { return "float"; },
                               [](const TextPtr&) -> std::string_view { return "str"; },
                               [](const SequencePtr& seq) { return sequence_type_name(seq->kind); },
                               [](const DictPtr&) -> std::string_view { return "dict"; },
                               [](const ObjectPtr& object) { return object->type_name(); }},
                    data_);
}

int32_t Value::depth() const {
  if (const Sequence* sequence = as_sequence()) return sequence->depth;
  if (const Dict* dict = as_dict()) return dict->depth();
  return 0;
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  return std::visit(
      [&other](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else {
          return mine == std::get<T>(other.data_);
        }
      },
      data_);
}

bool append_canonical_key(std::string& out, const Value& key) {
  if (const Text* text = key.as_text()) {
    out += "s" + std::to_string(text->size()) + ":";
    out += text->bytes();
    return true;
  }
  if (const auto integer = key.as_integer()) {
    out += "i" + std::to_string(*integer) + ";";
    return true;
  }
  if (key.is_float()) {
    append_canonical_double(out, *key.as_double());
    return true;
  }
  if (key.is_none() || key.is_undefined()) {
    out += key.is_none() ? "n" : "u";
    return true;
  }
  if (const Object* object = key.as_object()) {
    out += "o" + std::to_string(reinterpret_cast<uintptr_t>(object)) + ";";
    return true;
  }
  const Sequence* sequence = key.as_sequence();
  if (sequence != nullptr &&
      (sequence->is_generator() || sequence->kind == SequenceKind::kDictValues)) {
    out += "g" + std::to_string(reinterpret_cast<uintptr_t>(sequence)) + ";";
    return true;
  }
  if (sequence != nullptr && sequence->kind == SequenceKind::kRange) {
    out += "r" + std::to_string(sequence->range_start) + "," +
           std::to_string(sequence->range_stop) + "," + std::to_string(sequence->range_step) + ";";
    return true;
  }
  if (sequence == nullptr || sequence->kind != SequenceKind::kTuple) return false;
  out += "(";
  for (const Value& item : sequence->items) {
    if (!append_canonical_key(out, item) || out.size() > kMaxKeyBytes) return false;
  }
  out += ")";
  return true;
}

std::optional<size_t> Dict::index_of(const Value& key) const {
  const Text* text = key.as_text();
  if (text != nullptr && index_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Text* candidate = entries_[i].first.as_text();
      if (candidate != nullptr && candidate->bytes() == text->bytes()) return i;
    }
    return std::nullopt;
  }
  std::string wanted;
  if (!append_canonical_key(wanted, key)) return std::nullopt;
  if (!index_.empty()) {
    const auto found = index_.find(wanted);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::string candidate;
    append_canonical_key(candidate, entries_[i].first);
    if (candidate == wanted) return i;
  }
  return std::nullopt;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (const auto existing = index_of(key)) {
    entries_[*existing].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() < kIndexedDictSize) return;
  for (size_t i = index_.size(); i < entries_.size(); ++i) {
    std::string canonical;
    append_canonical_key(canonical, entries_[i].first);
    index_.emplace(std::move(canonical), i);
  }
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find("s" + std::to_string(key.size()) + ":" + std::string(key));
    return found == index_.end() ? nullptr : &entries_[found->second].second;
  }
  for (const Entry& entry : entries_) {
    const Text* text = entry.first.as_text();
    if (text != nullptr && text->bytes() == key) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (const Text* text = key.as_text()) return find(text->bytes());
  const auto index = index_of(key);
  return index ? &entries_[*index].second : nullptr;
}

Result<std::optional<Value>> Namespace::attribute(std::string_view name) {
  const Value* value = attributes_.find(name);
  return value == nullptr ? std::optional<Value>() : std::optional(*value);
}

}  // namespace quire::context::jinja
