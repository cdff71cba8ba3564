#include "context/window/cut_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace quire::context::window {
namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// The last character boundary at or before `at`.
size_t boundary_before(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && continues_character(text[at])) --at;
  return at;
}

size_t boundary_after(std::string_view text, size_t at) {
  while (at < text.size() && continues_character(text[at])) ++at;
  return at;
}

Tokenizer::Encoding encode_plain(const Tokenizer& tokenizer, std::string_view text) {
  const ByteRange whole{0, text.size()};
  return tokenizer.encode_with_ranges(text, {&whole, text.empty() ? size_t{0} : size_t{1}});
}

}  // namespace

std::string cut_text(const Tokenizer& tokenizer, std::string_view text, int64_t keep,
                     Truncate truncate, std::string_view handle) {
  QUIRE_CHECK(truncate != Truncate::kNone, "a part that may be cut");
  const Tokenizer::Encoding encoding = encode_plain(tokenizer, text);
  const auto count = static_cast<int64_t>(encoding.ids.size());
  if (count <= keep) return std::string(text);
  const int64_t head = truncate == Truncate::kHead   ? keep
                       : truncate == Truncate::kTail ? 0
                                                     : (keep + 1) / 2;
  const int64_t tail = keep - head;
  const size_t head_end = head > 0 ? boundary_before(text, encoding.ranges[head - 1].end) : 0;
  const size_t tail_begin =
      tail > 0 ? boundary_after(text, encoding.ranges[count - tail].begin) : text.size();
  std::string out(text.substr(0, head_end));
  if (!out.empty()) out += '\n';
  out += fmt::format("[... {} tokens cut here, handle {} ...]", count - keep, handle);
  if (tail_begin < text.size()) out += '\n';
  out += text.substr(std::max(tail_begin, head_end));
  return out;
}

std::string_view first_tokens(const Tokenizer& tokenizer, std::string_view text, int64_t most) {
  if (most <= 0) return {};
  while (true) {
    const Tokenizer::Encoding encoding = encode_plain(tokenizer, text);
    if (static_cast<int64_t>(encoding.ids.size()) <= most) return text;
    // A shorter text may be tokenized otherwise, so that it is counted anew.
    text = text.substr(0, boundary_before(text, encoding.ranges[most - 1].end));
    if (text.empty()) return text;
    if (count_text(tokenizer, text) > most) --most;
    if (most <= 0) return {};
  }
}

int64_t count_text(const Tokenizer& tokenizer, std::string_view text) {
  return static_cast<int64_t>(tokenizer.encode(text, Special::kPlain).size());
}

}  // namespace quire::context::window
