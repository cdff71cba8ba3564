// to_json.h: values as JSON, exactly as Python's json.dumps writes them.
//
// Text keeps its origins; punctuation, keys' quotes and numbers take the origin of the container
// they belong to, so that a tool's definition is all tools. A function without state.
#pragma once
#include <optional>
#include <string>

#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level's text
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// Fails for what JSON cannot hold, an undefined value among them.
Result<Text> to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace quire::context::jinja
