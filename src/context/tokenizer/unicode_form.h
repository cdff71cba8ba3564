// unicode_form.h: Unicode normalization that leaves alone what it need not touch.
//
// utf8proc does the mapping; here is what it lacks: a text is cut at characters that no
// normalization can combine with what precedes them, so that only the stretches that may change are
// rewritten and tokens can be traced back; and combining marks are put in order in O(n log n),
// where utf8proc takes O(n^2). Pure functions.
#pragma once
#include <string>
#include <string_view>

#include "context/tokenizer.h"
#include "context/tokenizer/aligned_text.h"

namespace quire::context {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Normalizes `text`; ill-formed bytes stay and separate what is left and right of them.
void normalize_unicode(AlignedText& text, UnicodeForm form);

}  // namespace quire::context
