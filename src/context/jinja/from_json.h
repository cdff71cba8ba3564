// from_json.h: JSON documents as template values, all of one origin.
//
// A function without state. Fails only for a document nested deeper than values may be.
#pragma once
#include "base/result.h"
#include "context/jinja/value.h"
#include "formats/json.h"

namespace quire::context::jinja {

Result<Value> from_json(const formats::Json& json, Origin origin);

}  // namespace quire::context::jinja
