#include "context/tokenizer/pattern.h"

#include "base/utf8.h"

namespace quire::context {

ByteRange Pattern::next_stretch(std::string_view text, size_t from, const RegexScratch& scratch) {
  if (scratch.texts() == RegexScratch::Texts::kWellFormed) return {from, text.size()};
  size_t begin = from;
  while (begin < text.size() && !utf8_next(text.substr(begin)).valid) ++begin;
  size_t end = begin;
  while (end < text.size()) {
    const Utf8Char c = utf8_next(text.substr(end));
    if (!c.valid) break;
    end += static_cast<size_t>(c.bytes);
  }
  return {begin, end};
}

size_t Pattern::character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace quire::context
