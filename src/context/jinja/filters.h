// filters.h: what stands behind "|": x | trim, xs | map(attribute="name") | join(", ").
//
// Jinja's built-in filters, with tojson as Hugging Face defines it; lazy ones give a generator, as
// there. What chat templates cannot need (urlize, random, ...) and unknown names are errors.
// Functions without state.
#pragma once
#include <string_view>

#include "base/result.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

using Filter = Result<Value> (*)(Runtime&, const Value& input, const Arguments&);

/// The filters on text and numbers, those on sequences; nullptr for a name they do not have.
Filter find_text_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);

bool is_filter_name(std::string_view name);
Result<Value> apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                           const Arguments& arguments);

}  // namespace quire::context::jinja
