// regex_syntax.h: Oniguruma's pattern syntax, which tokenizer.json uses, rewritten for PCRE2.
//
// They differ where it matters: what \s is (U+0085 yes, U+180E no), "{1,3}+" (repeated, not
// possessive), "$" (before every newline too), and the version of Unicode (16 against PCRE2's 14:
// the characters added since are spelled out). What has no faithful translation is refused by name.
// Pure function.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::context {

/// `what` names the place of the pattern in error sentences.
Result<std::string> to_pcre2(std::string_view pattern, std::string_view what);

}  // namespace quire::context
