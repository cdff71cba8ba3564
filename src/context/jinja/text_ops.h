// text_ops.h: Python's string operations on texts, keeping every byte's origin.
//
// What methods.h and filters.h share. Inserted text brings its own origins; case mapping keeps the
// origin of the character it maps. Only what can grow its input takes the runtime, to charge for it
// first; the callers charge the rest by their inputs' sizes. Functions without state.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/jinja/runtime.h"
#include "context/jinja/text.h"

namespace quire::context::jinja {

/// string_view::find in linear time, whatever the texts.
size_t find_bytes(std::string_view text, std::string_view part, size_t from = 0);

/// False when the budget cannot pay for what depends on two texts' sizes: searching from the right,
/// and stripping a set of characters.
[[nodiscard]] bool charge_rfind(Runtime& runtime, size_t text_bytes, size_t part_bytes);
[[nodiscard]] bool charge_strip(Runtime& runtime, size_t text_bytes, size_t set_bytes);
/// False when the budget cannot pay for reading an operand, if it is a text.
[[nodiscard]] bool charge_input(Runtime& runtime, const Value& input);

enum class Side { kBoth, kLeft, kRight };
/// Without the given characters at its ends; without whitespace when `characters` is null.
Text strip(const Text& text, const Text* characters, Side side);

/// At most max_splits cuts (all when negative) at each `separator`, which must not be empty.
std::vector<Text> split(const Text& text, std::string_view separator, int64_t max_splits);
std::vector<Text> split_from_right(const Text& text, std::string_view separator,
                                   int64_t max_splits);
/// At runs of whitespace; no empty parts.
std::vector<Text> split_words(const Text& text, int64_t max_splits);
std::vector<Text> split_words_from_right(const Text& text, int64_t max_splits);
enum class LineEnds { kDrop, kKeep };
std::vector<Text> split_lines(const Text& text, LineEnds line_ends);

/// At most max_count replacements; all when negative.
Result<Text> replace(Runtime& runtime, const Text& text, std::string_view old,
                     const Text& replacement, int64_t max_count);
Result<Text> join(Runtime& runtime, const Text& separator, const std::vector<Text>& parts);

enum class Case {
  kUpper,
  kLower,
  kTitle,       // str.title(): every run of cased characters
  kCapitalize,  // the first character only
  kSwap,
  kTitleWords  // Jinja's title filter: after spaces, hyphens and opening brackets
};
Text with_case(const Text& text, Case wanted);

/// Padded with `fill` to `width` characters.
enum class Align { kLeft, kRight, kCenter };
Result<Text> pad(Runtime& runtime, const Text& text, int64_t width, const Text& fill, Align align);

}  // namespace quire::context::jinja
