// string_pattern.h: a regular expression ("pattern") as steps of a grammar.
//
// The part of ECMAScript that a grammar can follow: literals, classes, ., groups, alternatives and
// counted repetition, ^ and $ at the ends of an alternative. Without ^ any text may come before,
// and without $ after. \d, \w and \s are ASCII's. What it cannot follow (looking around, references
// back, word borders, properties of Unicode) is refused by name.
// Pure functions; any thread.
#pragma once
#include <string_view>

#include "base/result.h"
#include "engine/grammar/json_rules.h"

namespace quire::engine::grammar {

/// A string with its quotes whose content `pattern` matches. The error says what is wrong with the
/// pattern, as the end of a sentence: "has a group that is never closed".
Result<NodeId> string_matching(JsonRules& rules, std::string_view pattern, NodeId next);

/// The pattern of a "format" that has one ("date", "uuid"); empty for any other: those say nothing.
std::string_view pattern_of_format(std::string_view format);

}  // namespace quire::engine::grammar
