// runtime.h: what one render carries through every operation: its budget, clock and live objects.
//
// Also the ways to make values: they charge the budget and refuse values that nest too deeply, so
// nothing else constructs sequences, dicts or long texts. One per render, one thread.
#pragma once
#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "context/jinja/budget.h"
#include "context/jinja/value.h"

namespace quire::context::jinja {

struct Runtime {
  Runtime(const Limits& render_limits, std::chrono::sys_seconds wall_clock)
      : budget(render_limits.max_steps), limits(render_limits), now(wall_clock) {}
  ~Runtime() {
    for (const ObjectPtr& object : objects) object->drop_references();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget budget;
  Limits limits;
  std::chrono::sys_seconds now;
  bool used_clock = false;
  size_t live_bytes = 0;  // of long texts; outlives the objects below
  /// Namespaces, macros and loops may refer to each other in cycles, so they live until the end.
  std::vector<ObjectPtr> objects;
};

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

/// A failure of the template at what it does with its values.
Error template_error(std::string message);

Result<Value> make_text(Runtime& runtime, Text text);
Result<Value> make_sequence(Runtime& runtime, std::vector<Value> items,
                            SequenceKind kind = SequenceKind::kList,
                            Origin origin = kTemplateOrigin);
Result<Value> make_dict(Runtime& runtime, Dict dict, Origin origin = kTemplateOrigin);

/// The elements a for loop would see; a generator is used up. Fails for what is not iterable.
Result<std::vector<Value>> iterate(Runtime& runtime, Value& value);
/// What append_canonical_key appends, charged for; fails for a value that is not hashable.
Result<std::string> canonical_key(Runtime& runtime, const Value& key);
/// Python's len().
Result<int64_t> length_of(const Value& value);
/// The origin of what is made from both: outside data wins over the template.
inline Origin joint_origin(Origin a, Origin b) {
  return a != kTemplateOrigin ? a : b;
}

/// Arguments matched to parameter names as Python does; absent ones are empty.
using Bound = std::vector<std::optional<Value>>;
Result<Bound> bind(std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> names, size_t num_required = 0);

/// An integer argument; fails with the parameter's name for anything else.
Result<int64_t> integer_or(const std::optional<Value>& argument, int64_t otherwise,
                           std::string_view name);
inline bool truthy_or(const std::optional<Value>& argument, bool otherwise) {
  return argument ? argument->truthy() : otherwise;
}

}  // namespace quire::context::jinja
